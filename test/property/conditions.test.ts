import { celEnv, isCelError, parse, plan } from '@bufbuild/cel';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkCondition } from '../../shared/condition/check-condition.ts';
import { compileForm } from '../../shared/condition/compile-form.ts';
import { factAt } from '../../shared/condition/fact-at.ts';
import { parseForm } from '../../shared/condition/form.ts';
import { compilePattern } from '../../shared/condition/pattern.ts';
import { readsOf } from '../../shared/condition/reads-of.ts';
import type { Truth, Variables } from '../../shared/condition/variables.ts';
import { must } from '../../shared/errors/assert.ts';
import { runs } from '../support/base/runs.ts';
import { variables as usual } from '../unit/condition/evaluate.ts';
import { expression, members } from './condition-source.ts';

const environment = celEnv();

/** As the library has values: int is a bigint. */
function forLibrary(value: unknown): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(forLibrary);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, forLibrary(each)]));
}

/** What the library answers; null: an error, which another kind than bool is, too. */
function askLibrary(source: string, { nowMs, ...variables }: Variables): boolean | null {
  try {
    const bindings = { ...(forLibrary(variables) as object), now: timestampFromMs(nowMs) };
    const answer = plan(environment, parse(source))(bindings as never);
    return typeof answer === 'boolean' && !isCelError(answer) ? answer : null;
  } catch {
    return null;
  }
}

const variablesOf = (request: object, claims: object): Variables => ({
  ...usual,
  request: request as Variables['request'],
  claims: claims as Variables['claims'],
});
const evaluate = (source: string, variables: Variables): Truth | undefined => {
  const checked = checkCondition(source);
  return 'form' in checked ? compileForm(checked.form)(variables, { left: 10_000 }) : undefined;
};

it('answers as @bufbuild/cel does, and errs where that errs', () => {
  let compared = 0;
  fc.assert(
    fc.property(expression, members, members, (source, request, claims) => {
      // The library has `has()` of a null, and of a member of a list, false: we have true, and an error.
      if (/has\(\[/.test(source)) return;
      // It takes two signs in parentheses for none, whatever they stand before.
      if (/[-!]\([-!]/.test(source)) return;
      if (/has\(/.test(source) && /null/.test(source + JSON.stringify([request, claims]))) return;
      const variables = variablesOf(request, claims);
      const ours = evaluate(source, variables);
      if (ours === undefined) return;
      compared += 1;
      expect([source, typeof ours === 'boolean' ? ours : null]).toEqual([
        source,
        askLibrary(source, variables),
      ]);
    }),
    { numRuns: runs({ short: 1_000, long: 50_000 }) },
  );
  expect(compared).toBeGreaterThan(200);
});

/** Nothing but what those pointers name: what a replay has. */
function reduced(variables: Variables, pointers: readonly string[]): Variables {
  const left: Record<string, unknown> = { ...variables, request: {}, claims: {}, passport: {}, user: null };
  for (const pointer of pointers) {
    const value = factAt(variables, pointer);
    if (value === undefined) continue;
    const names = pointer.split('/').slice(1);
    let within = left;
    for (const name of names.slice(0, -1)) {
      within[name] ??= {};
      within = within[name] as Record<string, unknown>;
    }
    within[must(names.at(-1), 'a pointer has names')] = value;
  }
  return left as unknown as Variables;
}

it('rests on the facts that readsOf names, and on no other', () => {
  fc.assert(
    fc.property(expression, members, members, (source, request, claims) => {
      const checked = checkCondition(source);
      if (!('form' in checked)) return;
      const form = must(parseForm(JSON.parse(JSON.stringify(checked.form))), 'a checked form is a form');
      const variables = variablesOf(request, claims);
      const pointers = readsOf(form);
      for (const pointer of pointers) expect(pointer).toMatch(/^\/(?:user$|(?:request|claims|passport)\/)/);
      const [budget, again] = [{ left: 300 }, { left: 300 }];
      const whole = compileForm(form)(variables, budget);
      expect(compileForm(form)(reduced(variables, pointers), again)).toEqual(whole);
      expect(again).toEqual(budget);
    }),
    { numRuns: runs({ short: 500, long: 50_000 }) },
  );
});

it('finds a pattern where a RegExp finds it', () => {
  const piece = fc.constantFrom(
    'a',
    'b',
    '.',
    '^',
    '$',
    '\\b',
    '[^a]',
    '(a|b)',
    '(?:ab)?',
    'a*',
    '(b+|a)*',
    'é',
    '\\.',
    '/',
    '\\n',
  );
  const pattern = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.', '/', 'é', '😀', '\n', ' '), maxLength: 12 });
  fc.assert(
    fc.property(pattern, fc.array(text, { maxLength: 4 }), (source, texts) => {
      const compiled = compilePattern(source);
      if (typeof compiled === 'string') return;
      for (const each of texts) {
        expect([source, each, compiled.test(each)]).toEqual([
          source,
          each,
          new RegExp(source, 'u').test(each),
        ]);
      }
    }),
    { numRuns: runs({ short: 2_000, long: 100_000 }) },
  );
});
