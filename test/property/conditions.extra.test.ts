import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkCondition } from '../../shared/condition/check-condition.ts';
import { compileForm } from '../../shared/condition/compile-form.ts';
import type { Truth, Variables } from '../../shared/condition/variables.ts';
import { runs } from '../support/base/runs.ts';
import { variables as usual } from '../unit/condition/evaluate.ts';
import { expression, members } from './condition-source.ts';

/** Searches for what is let pass although it erred, for what takes too long, and for what throws. */
function evaluate(source: string, variables: Variables, left: number): Truth | null {
  const checked = checkCondition(source);
  if (!('form' in checked)) return null;
  const budget = { left };
  const truth = compileForm(checked.form)(variables, budget);
  if (budget.left < 0) expect(truth).toHaveProperty('detail');
  return truth;
}

it('lets nothing pass that rests on an error, and ends in time', () => {
  const outcomes = { true: 0, false: 0, error: 0, refused: 0 };
  fc.assert(
    fc.property(
      expression,
      members,
      members,
      fc.integer({ min: 0, max: 200 }),
      (source, request, claims, left) => {
        const variables = { ...usual, request, claims };
        const before = process.hrtime.bigint();
        const truth = evaluate(source, variables, left);
        expect(Number(process.hrtime.bigint() - before)).toBeLessThan(500e6);
        const outcome =
          truth === null ? 'refused' : typeof truth === 'boolean' ? (`${truth}` as const) : 'error';
        outcomes[outcome] += 1;
        if (outcome !== 'error') return;
        for (const on of [
          ...[
            `(${source}) && true`,
            `true && (${source})`,
            `!(${source})`,
            `!!(${source})`,
            `(${source}) || false`,
          ],
          ...[`(${source}) == (${source})`, `[${source}] != []`, `(${source}) ? true : true`],
          ...[`[1].all(i, ${source})`, `[1].exists(i, ${source})`, `[1].exists_one(i, !(${source}))`],
          ...[
            `size([1].filter(i, ${source})) >= 0`,
            `size([1].map(i, ${source})) == 1`,
            `{'a': ${source}}.a`,
          ],
        ]) {
          expect([on, evaluate(on, variables, left)]).not.toEqual([on, true]);
        }
      },
    ),
    { numRuns: runs({ short: 50_000, long: 500_000 }) },
  );
  // It would find nothing if it made nothing but faults.
  for (const count of Object.values(outcomes)) expect(count).toBeGreaterThan(500);
});

it('reads any text, and answers a form or a place in it', () => {
  const piece = fc.oneof(
    expression,
    fc.string({ unit: 'binary', maxLength: 8 }),
    fc.constantFrom(
      '(',
      ')',
      '[',
      ']',
      '{',
      '}',
      '"',
      "'''",
      'r"',
      '\\',
      '\\x',
      '?',
      ':',
      '//',
      '\n',
      '..',
      '0x',
      '1e',
      '`',
    ),
  );
  const torn = fc
    .tuple(fc.array(piece, { maxLength: 6 }), fc.nat(200), fc.nat(200))
    .map(([pieces, from, to]) => pieces.join('').slice(Math.min(from, to), Math.max(from, to)));
  fc.assert(
    fc.property(torn, (source) => {
      const checked = checkCondition(source);
      if ('form' in checked) {
        compileForm(checked.form)(usual, { left: 100 });
        return;
      }
      const lines = source.split('\n');
      expect(checked.line).toBeGreaterThan(0);
      expect(checked.line).toBeLessThanOrEqual(lines.length);
      expect(checked.column).toBeLessThanOrEqual([...(lines[checked.line - 1] ?? '')].length + 1);
    }),
    { numRuns: runs({ short: 20_000, long: 500_000 }) },
  );
});
