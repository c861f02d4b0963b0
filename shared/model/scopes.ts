/** What an API key may do (contract §2). */
export const scopes = [
  'passports:issue',
  'passports:read',
  'passports:revoke',
  'gates:create',
  'gates:read',
  'gates:update',
  'gates:manage',
  'issuers:create',
  'issuers:read',
  'issuers:update',
  'templates:read',
  'templates:create',
  'osgate:read',
  'osgate:manage',
  'admin:*',
  'enforcement:check',
  'enforcement:delegate',
  'attestations:read',
  'audit:read',
  'approvals:read',
  'approvals:resolve',
  'webhooks:manage',
  'keys:manage',
  'users:manage',
  'sidecars:connect',
  'wallets:read',
  'wallets:manage',
] as const;

export type Scope = (typeof scopes)[number];

const knownScopes: ReadonlySet<string> = new Set(scopes);
const aliases: ReadonlyMap<string, Scope> = new Map([['passports:create', 'passports:issue']]);

/** Reads a scope, resolving the alias `passports:create`. Returns null for an unknown one. */
export function parseScope(text: string): Scope | null {
  const alias = aliases.get(text);
  if (alias !== undefined) return alias;
  return knownScopes.has(text) ? (text as Scope) : null;
}

const gatesManageImplies: ReadonlySet<Scope> = new Set([
  'gates:create',
  'gates:read',
  'gates:update',
  'enforcement:check',
]);

function grants(held: Scope, required: Scope): boolean {
  if (held === required || held === 'admin:*') return true;
  if (held === 'gates:manage') return gatesManageImplies.has(required);
  if (held === 'wallets:manage') return required === 'wallets:read';
  if (held === 'keys:manage') return required === 'users:manage';
  return held === 'osgate:manage' && required === 'osgate:read';
}

/** Whether a key with this scope can make other keys. */
export const makesKeys = (scope: Scope): boolean => grants(scope, 'keys:manage');

/** Whether a held scope is, or implies, the required one. */
export const holdsScope = (held: readonly Scope[], required: Scope): boolean =>
  held.some((scope) => grants(scope, required));
