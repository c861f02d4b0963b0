import { describe, expect, it } from 'vitest';
import { checkCondition } from '../../../shared/condition/check-condition.ts';
import { compileForm } from '../../../shared/condition/compile-form.ts';
import { conditionLimits } from '../../../shared/condition/limits.ts';
import { compilePattern } from '../../../shared/condition/pattern.ts';
import { evaluate, formOf, variables } from './evaluate.ts';

/** Time of what somebody makes as slow as the bounds allow. */
const used = 'the conditions of this decision take too many steps';
const withArguments = (args: unknown) => ({ request: { arguments: args } });

function millis(run: () => void): number {
  const before = process.hrtime.bigint();
  run();
  return Number(process.hrtime.bigint() - before) / 1e6;
}

describe('hostile source', () => {
  it.each([
    ['4 KiB of !', '!'.repeat(4096)],
    ['4 KiB of -', `${'-'.repeat(4095)}a`],
    ['open parentheses', '('.repeat(4096)],
    ['parentheses', `${'('.repeat(2000)}true${')'.repeat(2000)}`],
    ['lists', `${'['.repeat(2048)}${']'.repeat(2048)}`],
    ['calls', `${'f('.repeat(1300)}${')'.repeat(1300)}`],
    ['indexes', `request${'[0]'.repeat(1300)}`],
    ['members', `request${'.a'.repeat(2000)}`],
    ['sums', `1${'+1'.repeat(2000)} == 1`],
    ['or', `true${'||true'.repeat(680)}`],
    ['choices', `${'true?true:'.repeat(400)}true`],
    ['a million items', `request.a in [${'1,'.repeat(1_000_000)}1]`],
    ['an open string', `'${'\\\\'.repeat(2000)}`],
    ['digits', `${'9'.repeat(4090)} > 1`],
    ['comments', '//'.repeat(2048)],
    ['patterns', Array.from({ length: 150 }, () => "user.matches('a{480}')").join('||')],
    ['a pattern of patterns', "user.matches('(((a{10}){10}){10}|b{1000}){1}')"],
  ])('of %s is a fault in no time', (_what, source) => {
    let checked: ReturnType<typeof checkCondition> | undefined;
    expect(millis(() => (checked = checkCondition(source)))).toBeLessThan(500);
    expect(checked).toHaveProperty('line');
  });
});

describe('hostile evaluation', () => {
  const numbers = Array.from({ length: 150 }, (_, at) => at);

  it('ends where the steps end, however comprehensions are nested', () => {
    const nested = 'request.arguments.all(a, request.arguments.all(b, request.arguments.all(c, c >= 0)))';
    const took = millis(() => expect(evaluate(nested, withArguments(numbers))).toBe(used));
    expect(took).toBeLessThan(1_000);
  });

  it.each([
    ['additions', `${'c + 9007199254740993 - '.repeat(70)}1 > 0`],
    ['members', `${'request.arguments[0] == c || '.repeat(45)}true`],
    ['lists', `[${'c, '.repeat(180)}1] != []`],
    ['maps', `{${Array.from({ length: 80 }, (_, at) => `${at}: c`).join()}} != {}`],
    ['texts', `${"'a' + string(c) < 'b' && ".repeat(40)}true`],
    ['times', `${"now.getHours('Asia/Kathmandu') > 0 || ".repeat(40)}true`],
    ['other hours', `${"timestamp(c * 7200).getHours('Asia/Kathmandu') > 24 || ".repeat(25)}true`],
  ])('ends in time with as many %s in each item as fit', (_what, body) => {
    const source = `request.arguments.all(a, request.arguments.all(c, ${body}))`;
    const items = Array.from({ length: 99 }, (_, at) => at);
    const form = formOf(source);
    const given = { ...variables, ...withArguments(items) };
    const took = millis(() => compileForm(form)(given, { left: conditionLimits.stepsMax }));
    expect(took).toBeLessThan(4_000);
  });

  const text = 'ab'.repeat(32_000);
  it.each([
    ['(a+)+$', `${'a'.repeat(64_000)}!`],
    ['^(a|a)*$', `${'a'.repeat(64_000)}!`],
    ['(.*a){20}[cd]', text],
    ['(a|b)*a(a|b){40}[cd]', text],
    ['((a?){8}){8}[cd]$', text],
    ['(a?b?){40}[cd]', text],
    ['(\\w|\\d|a|b){60}[cd]', text],
    ['(?i)([^x]{100}|[^y]{100})[cd]', text],
    ['([a-z]*.){9}[cd]', text],
  ])('finds %s or not, in linear time', (source, within) => {
    const pattern = compilePattern(source);
    if (typeof pattern === 'string') throw new Error(pattern);
    const steps = Math.ceil(within.length / 64) * pattern.steps;
    const took = millis(() => expect(pattern.test(within)).toBe(false));
    // A decision has 10,000 steps: what they may take together, on a machine that is busy.
    expect((took / steps) * conditionLimits.stepsMax).toBeLessThan(4_000);
  });

  it('looks for a long text in a long one within its steps', () => {
    const haystack = 'a'.repeat(60_000);
    const needle = `${'a'.repeat(3_000)}b`;
    const given = withArguments({ haystack, needle });
    const took = millis(() => {
      expect(evaluate('request.arguments.haystack.contains(request.arguments.needle)', given)).toBe(used);
      expect(evaluate(`request.arguments.haystack.contains('${'a'.repeat(600)}b')`, given)).toBe(false);
    });
    expect(took).toBeLessThan(500);
  });
});

it('evaluates five usual conditions in less than ten microseconds', () => {
  const five = [
    "request.arguments.path.startsWith('/workspace/') && !request.arguments.path.matches(r'(^|/)\\.\\.(/|$)')",
    'request.arguments.limit <= 100',
    "request.domain in ['dev.example', 'test.example', 'files.example']",
    "now.getHours('Europe/Berlin') >= 8 && now.getHours('Europe/Berlin') < 18",
    "claims.team == 'blue'",
  ].map((source) => compileForm(formOf(source)));
  const decide = () => {
    const budget = { left: conditionLimits.stepsMax };
    return five.every((each) => each(variables, budget) === true);
  };
  expect(decide()).toBe(true);
  const rounds = 20_000;
  const best = Math.min(
    ...Array.from({ length: 10 }, () =>
      millis(() => {
        for (let round = 0; round < rounds; round += 1) decide();
      }),
    ),
  );
  expect((best / rounds) * 1_000).toBeLessThan(10);
});
