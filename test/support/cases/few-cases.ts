import { must } from '../../../shared/errors/assert.ts';
import { RequestMembers } from '../../../shared/wire/api/check.ts';
import type { DecisionCase } from './decision-case.ts';

/**
 * What a case shows of a door: each member of the request that is read there, whether a gate is named, the
 * outcome with its reason, and each further member of the answer.
 */
export function shownBy({ gate, approval, request, want }: DecisionCase): readonly string[] {
  const { decision, reason, constraints_evaluated: _, ...further } = want;
  const presented = approval?.isPresented === true ? ['approval_id'] : [];
  // Null is for what is absent.
  const members = Object.keys(request).filter((name) => (request[name] ?? null) !== null);
  return [
    ...[...members, ...presented].filter(isRead).map((name) => `reads ${name}`),
    gate === null ? 'reads no gate' : 'reads a gate',
    `answers ${decision} ${reason ?? 'for no reason'}`,
    ...Object.keys(further).map((name) => `answers with ${name}`),
  ];
}

const isRead = (name: string): boolean => name in RequestMembers.properties;

/**
 * A few of these cases that show all that they show together; none of the few can be left out. The first of
 * those that add most comes first, so that the same cases give the same few.
 */
export function fewCases(cases: readonly DecisionCase[]): readonly DecisionCase[] {
  const missing = new Set(cases.flatMap(shownBy));
  const chosen: DecisionCase[] = [];
  while (missing.size > 0) {
    const added = cases.map((each) => shownBy(each).filter((shown) => missing.has(shown)).length);
    const best = must(cases[added.indexOf(Math.max(...added))], 'what is missing is shown by a case');
    chosen.push(best);
    for (const shown of shownBy(best)) missing.delete(shown);
  }
  // What came later may show all that an earlier one was taken for.
  for (const each of [...chosen]) {
    const others = chosen.filter((other) => other !== each);
    const shown = new Set(others.flatMap(shownBy));
    if (shownBy(each).every((what) => shown.has(what))) chosen.splice(chosen.indexOf(each), 1);
  }
  return chosen;
}
