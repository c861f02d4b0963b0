import type { CompiledGate } from '../decision/compile-gate.ts';
import type { CatalogTerms } from '../model/catalog.ts';
import type { FormerPolicy, OtherPolicy, SamePart } from './decide-again.ts';
import { compileStatedPolicy } from './evidence.ts';

/** A policy as it is kept (contract §9). */
export interface StatedPolicy {
  readonly hash: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** The catalog that it names; null: none, or this version does not know all of it. */
  readonly catalog: CatalogTerms | null;
}

type Holder = Pick<CompiledGate, 'gateId' | 'accountId' | 'mode'>;

/** Null: this version does not know all that is in it. */
export function otherPolicyOf(gate: Holder, { hash, body, catalog }: StatedPolicy): OtherPolicy | null {
  const compiled = compileStatedPolicy({ ...gate, policyHash: hash }, withoutConditions(body), catalog);
  if (compiled === null) return null;
  return { gate: compiled, hash, conditions: conditionedPermissions(body['constraints']) };
}

/** Beside another one. Null: as above. */
export function formerPolicyOf(
  gate: Holder,
  { hash, body, catalog }: StatedPolicy,
  other: StatedPolicy,
): FormerPolicy | null {
  const policy = compileStatedPolicy({ ...gate, policyHash: hash }, withoutConditions(body), catalog);
  if (policy === null) return null;
  const [before, after] = [partsOf(body), partsOf(other.body)];
  const isSame = (part: SamePart): boolean => before[part] === after[part];
  return {
    policy,
    hash,
    has: {
      trust: isSame('trust'),
      routes: isSame('routes'),
      domains: isSame('domains'),
      pii: isSame('pii'),
      spend: isSame('spend'),
      rate: isSame('rate'),
      conditions: isSame('conditions'),
    },
  };
}

type Members = Readonly<Record<string, unknown>>;

/** What decides by facts, which are no part of records. */
export const unconditional = (constraints: unknown): Members => {
  const { conditions: _, record_facts: __, facts: ___, ...others } = constraints as Members;
  return others;
};

const withoutConditions = (body: StatedPolicy['body']): StatedPolicy['body'] => ({
  ...body,
  constraints: unconditional(body['constraints']),
});

/** Permissions of each condition; null: it is asked of every request. */
export function conditionedPermissions(constraints: unknown): readonly (ReadonlySet<string> | null)[] {
  const conditions = (constraints as Members)['conditions'];
  if (!Array.isArray(conditions)) return [];
  return conditions.map(({ permissions }: { readonly permissions?: readonly string[] | null }) =>
    permissions == null ? null : new Set(permissions),
  );
}

/** Each as text: members of a kept policy are in the order of RFC 8785. */
function partsOf(body: StatedPolicy['body']): Readonly<Record<SamePart, string>> {
  const constraints = body['constraints'] as Readonly<Record<string, unknown>>;
  const text = (...members: readonly unknown[]): string =>
    JSON.stringify(members.map((each) => each ?? null));
  return {
    trust: text(body['trust_level'], constraints['trusted_issuers']),
    routes: text(body['routes']),
    domains: text(constraints['allowed_domains']),
    pii: text(constraints['pii_controls']),
    spend: text(constraints['spend_limits']),
    rate: text(constraints['rate_limits']),
    conditions: text(constraints['conditions']),
  };
}
