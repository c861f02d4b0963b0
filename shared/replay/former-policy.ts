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
  const compiled = compileStatedPolicy({ ...gate, policyHash: hash }, body, catalog);
  return compiled === null ? null : { gate: compiled, hash };
}

/** Beside another one. Null: as above. */
export function formerPolicyOf(
  gate: Holder,
  { hash, body, catalog }: StatedPolicy,
  other: StatedPolicy,
): FormerPolicy | null {
  const policy = compileStatedPolicy({ ...gate, policyHash: hash }, body, catalog);
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
    },
  };
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
  };
}
