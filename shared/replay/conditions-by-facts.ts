import { factAt } from '../condition/fact-at.ts';
import type { Variables } from '../condition/variables.ts';
import type { CompiledCondition } from '../decision/compile-conditions.ts';
import type { FactsAnswer } from '../wire/evidence/fact.ts';

/** What opens commitments of a record, by path. Undefined: the path was absent. */
export type OpenFacts = ReadonlyMap<string, unknown>;

export const noFacts: OpenFacts = new Map();

/** Of a line that verifies. A value that was too long is known by its hash alone. */
export const openFacts = ({ facts }: Pick<FactsAnswer, 'facts'>): OpenFacts =>
  new Map(
    facts.flatMap(({ path, value, absent, hashed }) =>
      hashed === true ? [] : [[path, absent === true ? undefined : value]],
    ),
  );

/** What the facts of one record have been found to be, while its conditions were asked. */
export interface FactsFound {
  /** A condition was asked that reads what no fact opens. */
  areMissing: boolean;
  /** One says something else than the record or the passport. */
  differ: boolean;
}

/** What the record and the passport say as well as a fact does: texts, and a number. */
const known: ReadonlySet<string> = new Set([
  ...['/request/permission_key', '/request/domain', '/request/amount_micro_usd'],
  ...['/passport/id', '/passport/agent_id', '/passport/issuer', '/passport/trust_tier'],
]);

/** The same conditions, asked by these facts alone, whatever else is said to them of request and passport. */
export const conditionsByFacts = (
  conditions: readonly CompiledCondition[],
  facts: OpenFacts,
  found: FactsFound,
): readonly CompiledCondition[] =>
  conditions.map((condition) => ({
    ...condition,
    readsWallet: false,
    evaluate: (said, budget) => {
      const { reads } = condition;
      found.areMissing ||= !reads.every((path) => facts.has(path));
      found.differ ||= reads.some((path) => known.has(path) && isOther(factAt(said, path), facts.get(path)));
      return condition.evaluate(variablesOf(reads, facts, said), budget);
    },
  }));

/** A record leaves out what may be personal data: that says nothing. */
const isOther = (said: unknown, fact: unknown): boolean =>
  said !== undefined && fact !== undefined && said !== fact;

/** No path of one form leads into another one of it. */
function variablesOf(reads: readonly string[], facts: OpenFacts, { gate, nowMs }: Variables): Variables {
  const variables: Members = Object.assign(Object.create(null), { gate, nowMs });
  for (const name of ['request', 'passport', 'claims']) variables[name] = Object.create(null);
  for (const path of reads) {
    const value = facts.get(path);
    if (value === undefined) continue;
    const names = path
      .split('/')
      .slice(1)
      .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = names.pop() as string;
    let at = variables;
    for (const name of names) {
      at[name] ??= Object.create(null);
      at = at[name] as Members;
    }
    at[last] = value;
  }
  return variables as unknown as Variables;
}

/** Without a prototype, so that each name is a member like any other. */
type Members = Record<string, unknown>;
