import type { CarriedMembers } from '../../model/attestation.ts';
import { limits } from '../../model/limits.ts';
import { commitmentOf, factOwners, isFactSalt, type ShippedFact } from '../evidence/fact.ts';

const members: ReadonlySet<string> = new Set(['hashed', 'of', 'path', 'salt', 'value']);

/**
 * What opens commitments of a record, each path once. Null: one opens none, so that no sidecar stores a value
 * that its record does not name.
 */
export function readFacts(value: unknown, carried: CarriedMembers | null): readonly ShippedFact[] | null {
  if (!Array.isArray(value) || value.length === 0 || value.length > factsMax || carried === null) return null;
  const open = new Map((carried.facts ?? []).map(({ path, commitment }) => [path, commitment]));
  if (carried.user !== null) open.set('/user', carried.user);
  const facts = value.map((fact: unknown) => {
    if (!isFact(fact) || commitmentOf(fact) !== open.get(fact.path)) return null;
    open.delete(fact.path);
    return fact;
  });
  return facts.every((fact) => fact !== null) ? facts : null;
}

/** The facts of a record, and its user. */
const factsMax = limits.carriedFactsMax + 1;

function isFact(fact: unknown): fact is ShippedFact {
  if (typeof fact !== 'object' || fact === null || Array.isArray(fact)) return false;
  const { path, salt, hashed, of, ...rest }: Partial<Record<string, unknown>> = fact;
  return (
    typeof path === 'string' &&
    isFactSalt(salt) &&
    (hashed === undefined || hashed === true) &&
    (of === undefined || (of !== 'gate' && factOwners.some((owner) => owner === of))) &&
    Object.keys(rest).every((name) => members.has(name))
  );
}
