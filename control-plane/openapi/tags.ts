/**
 * How the published pages group the operations: the tags of the contract's subjects, then one for each other
 * room.
 */
export const tags = [
  { name: 'Discovery', description: 'Finding gates by what they offer. Public.' },
  { name: 'Passports', description: 'Signed identity credentials of agents.' },
  { name: 'Gates', description: 'Policy checkpoints: who may come in, to do what, for how much.' },
  { name: 'Catalogs', description: "A gate's signed, versioned permissions and prices." },
  {
    name: 'Enforcement',
    description:
      'Decisions, asked for by the backends of resource servers. A block is an answer, not an error.',
  },
  { name: 'Audit', description: 'Attestations: signed, hash-linked records of every decision.' },
  { name: 'Approvals', description: 'Requests that wait for a person, or did.' },
  { name: 'Issuers', description: 'In whose name passports are issued.' },
  { name: 'Templates', description: 'Ready-made constraints for new gates.' },
  { name: 'API keys', description: 'What callers of this API present.' },
  { name: 'Webhooks', description: 'Endpoints that are told what happens, and what was sent to them.' },
  { name: 'Signing keys', description: 'With which everything that this service signs can be verified.' },
  { name: 'Accounts', description: 'The customers of this service; for its operator alone.' },
  { name: 'Operations', description: 'For the people and programs that run the service.' },
] as const;

export type Tag = (typeof tags)[number]['name'];
