import type { GateConstraints, Policy } from '../api/client.ts';
import { policyInWords } from './policy.ts';

type PolicyBody = Policy['body'];

/** What a policy demands, as sentences. */
export function policySentences(body: PolicyBody): readonly string[] {
  const { trust_level, constraints, routes, catalog_version: version } = body;
  return [
    ...policyInWords(trust_level, constraints as GateConstraints),
    ...routes.map((route) => `A route: ${JSON.stringify(route)}.`),
    version === null ? 'No catalog is published.' : `Version ${version} of the catalog is in force.`,
  ];
}

/** What was demanded then and is not today, and the other way round. */
export function policyDifference(then: PolicyBody, today: PolicyBody) {
  const [before, after] = [policySentences(then), policySentences(today)];
  const inWords = { gone: only(before, after), added: only(after, before) };
  if (inWords.gone.length + inWords.added.length > 0) return inWords;
  // What no sentence says.
  const [one, other] = [membersOf(then), membersOf(today)];
  return { gone: only(one, other), added: only(other, one) };
}

const only = (one: readonly string[], other: readonly string[]): readonly string[] =>
  one.filter((sentence) => !other.includes(sentence));

const membersOf = ({ constraints, ...body }: PolicyBody): readonly string[] =>
  Object.entries({ ...body, ...constraints }).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
