/**
 * How the published pages group the operations: the tags of the contract's subjects, then one for each other
 * room.
 */
export const tags = [
  { name: 'Discovery', description: 'Finding gates by what they offer. Public.' },
  { name: 'Passports', description: 'Signed identity credentials of agents.' },
  { name: 'Gates', description: 'Policy checkpoints: which agents may do what, for how much.' },
  { name: 'Catalogs', description: "A gate's signed, versioned permissions and prices." },
  {
    name: 'Enforcement',
    description:
      'Decisions, requested by the backends of resource servers. A BLOCK is an answer, not an error.',
  },
  { name: 'Audit', description: 'Attestations: signed, hash-linked records of every decision.' },
  { name: 'Money', description: 'What PERMITs count in the end: holds, outcomes and refunds.' },
  { name: 'Statistics', description: 'What your gates decided, and what your sidecars are doing.' },
  { name: 'Wallets', description: 'Budgets of many passports, in trees.' },
  { name: 'Approvals', description: 'Requests that need, or needed, a decision by a person.' },
  {
    name: 'MCP pins',
    description: 'Tools of MCP servers behind guards, and changes that a person has to accept.',
  },
  { name: 'Issuers', description: 'In whose name passports are issued.' },
  { name: 'Shared Signals', description: 'What identity providers say of their users. Called by them.' },
  { name: 'Templates', description: 'Ready-made constraints for new gates.' },
  { name: 'API keys', description: 'Credentials of the callers of this API.' },
  { name: 'People', description: 'Users of an account, their logins and their browser sessions.' },
  { name: 'Channels', description: 'Where people are told of approvals: Slack, e-mail and plain webhooks.' },
  { name: 'Webhooks', description: 'Endpoints that receive events, and the deliveries to them.' },
  { name: 'Signing keys', description: 'With which everything that this service signs can be verified.' },
  { name: 'Accounts', description: 'The tenants of this service; for its operator only.' },
  { name: 'Operations', description: 'For the people and programs that operate the service.' },
] as const;

export type Tag = (typeof tags)[number]['name'];
