import { describe, expect, it } from 'vitest';
import { evaluate, stepsOf, variables } from './evaluate.ts';

const long = (chars: number, char = 'a') => char.repeat(chars);
const withArguments = (args: unknown) => ({ request: { arguments: args } });

describe('what a condition answers', () => {
  it.each([
    ['request.arguments.path.startsWith("/workspace/")', true],
    ["request.arguments.path.matches('(^|/)\\\\.\\\\.(/|$)')", false],
    ["request.arguments['odd key'] == 1", true],
    ["claims['https://issuer.example/level'] > 2", true],
    ['request.arguments.limit <= 4', false],
    ['request.arguments.ratio < 1', true],
    ['request.arguments.nothing == null', true],
    ['has(request.arguments.nothing)', true],
    ['has(request.arguments.path.length)', false],
    ['has(request.nowhere.at.all)', false],
    ["'team' in claims && !('sub' in claims)", true],
    ["'data:read' in passport.permissions", true],
    ["'__proto__' in claims || has(request.arguments.constructor)", false],
    ['request.arguments.rows.exists(row, has(row.team) && row.team == claims.team)', true],
    ['request.arguments.rows.all(row, row.id < 3)', true],
    ['request.arguments.rows.exists_one(row, row.id == 2)', true],
    ['request.arguments.rows.filter(row, row.id > 1).map(row, row.id) == [2]', true],
    ["request.arguments.tags.map(tag, tag != 'a', tag + '!') == ['b!']", true],
    ["request.arguments.nested.all(key, key == 'deep')", true],
    ["request.arguments.tags.all(tag, tag.size() == size('b'))", true],
    ['[1, 2].all(x, [3, 4].all(y, [5].all(x, x == 5) && x < y))', true],
    ["{'a': 1, 2: 'b', true: 3}[2] == 'b'", true],
    ["{'a': {'b': 2}}.a.b == 2", true],
    ['user == "ada@example.com" ? true : false', true],
    ["gate.id == 'gt_1' && gate.trust_level == 'L1'", true],
    ['passport.owner == null', true],
    ['request.arguments.nested.deep.value', true],
    ['dyn(1) == "1"', false],
    ["string(1) == '1' && int('-7') == -7 && double('1.5') == 1.5 && bool('true')", true],
  ])('%s is %s', (source, expected) => {
    expect(evaluate(source)).toBe(expected);
  });

  it('reads whole numbers as int and others as double, and keeps both apart', () => {
    expect(evaluate('request.arguments.limit + 1 == 6')).toBe(true);
    expect(evaluate('request.arguments.ratio + 0.5 == 1.0')).toBe(true);
    expect(evaluate('dyn(request.arguments.ratio + 0.5) + 1 == 2')).toBe("'+' does not take double and int");
    expect(evaluate('request.arguments.big + 1.0 > 1.0')).toBe(true);
    expect(evaluate('request.arguments.big + 1 > 1')).toBe("'+' does not take double and int");
    expect(evaluate('request.amount_micro_usd / 1000000 == 2')).toBe(true);
    expect(evaluate('1.0 / double(claims.zero) > 0.0')).toBe(false);
    expect(evaluate('7 / -2 == -3 && -7 % 2 == -1 && -0 == 0')).toBe(true);
  });

  it('counts within 64 bits', () => {
    expect(evaluate('9223372036854775807 - 1 == 9223372036854775806')).toBe(true);
    expect(evaluate('9007199254740991 + 2 == 9007199254740993')).toBe(true);
    expect(evaluate('3037000500 * 3037000500 > 0')).toBe("'*' overflows");
    expect(evaluate('9223372036854775807 + request.arguments.limit > 0')).toBe("'+' overflows");
    expect(evaluate('-(-9223372036854775807 - 1) > 0')).toBe("'-' overflows");
    expect(evaluate('-9223372036854775808 / -1 > 0')).toBe("'/' overflows");
    expect(evaluate('-9223372036854775808 < 0')).toBe(true);
  });

  it('orders text by code point and counts it so', () => {
    expect(evaluate("'\uffee' < '😀' && !('😀' < '\uffee')")).toBe(true);
    expect(evaluate("size(request.arguments.emoji) == 2 && '😀'.size() == 1")).toBe(true);
    expect(evaluate("'a' < 'ab' && 'b' > 'ab' && 'a' <= 'a'")).toBe(true);
  });

  it.each([
    ['request.arguments.file == "x"', 'request.arguments.file is absent'],
    ['request.nowhere.at.all == "x"', 'request.nowhere.at.all is absent'],
    ['request.arguments.path.name == "x"', 'request.arguments.path.name is absent'],
    ["claims['https://x'] == 1", 'claims["https://x"] is absent'],
    ['request.arguments.rows.all(row, row.team == "blue")', 'row.team is absent'],
    ['request.arguments.tags[2] == "c"', 'the list has no such item'],
    ['request.arguments.tags[-1] == "c"', 'the list has no such item'],
    ['request.arguments[user] == 1', 'the map has no such key'],
    ['request.arguments.limit / 0 == 1', "'/' divides by zero"],
    ['request.arguments.limit % 0 == 1', "'%' divides by zero"],
    ['request.arguments.limit < "6"', "'<' does not take int and string"],
    ['request.arguments.limit.startsWith("6")', 'startsWith() does not take int and string'],
    ['request.arguments.limit', 'the condition is not a bool but int'],
    ['request.arguments.limit && true', "'&&' does not take int"],
    ['!request.arguments.path', "'!' does not take string"],
    ['request.arguments.limit ? true : false', "'?:' does not take int"],
    ['request.arguments.tags.all(tag, tag)', 'all() does not take string'],
    ['request.arguments.limit.all(x, x)', 'a comprehension does not go through int'],
    ['int("1e3") == 1000', 'int() cannot read that string'],
    ['int(1e30) == 1', 'int() overflows'],
    ["timestamp('2026-02-30T00:00:00Z') < now", 'timestamp() cannot read that string'],
  ])('%s errs: %s', (source, detail) => {
    expect(evaluate(source)).toBe(detail);
  });

  it('passes over an error where the other side decides, in either order', () => {
    const error = 'request.file == 1';
    expect(evaluate(`${error} || true`)).toBe(true);
    expect(evaluate(`false && ${error}`)).toBe(false);
    expect(evaluate(`${error} && false`)).toBe(false);
    expect(evaluate(`${error} && true`)).toBe('request.file is absent');
    expect(evaluate(`${error} || request.other == 2 || false`)).toBe('request.file is absent');
    expect(evaluate('[1, 0].exists(x, 1 / x == 1)')).toBe(true);
    expect(evaluate('[0, 2].all(x, 1 / x == 1)')).toBe(false);
    expect(evaluate('[0, 1].exists_one(x, 1 / x == 1)')).toBe("'/' divides by zero");
    expect(evaluate('true ? true : request.file')).toBe(true);
  });

  it('knows the time, in zones by name and by offset', () => {
    expect(evaluate("now == timestamp('2026-06-15T06:30:45.678Z')")).toBe(true);
    expect(evaluate("now.getHours() == 6 && now.getHours('Europe/Berlin') == 8")).toBe(true);
    expect(evaluate("now.getHours('+02:30') == 9 && now.getMinutes('-00:31') == 59")).toBe(true);
    expect(evaluate("now.getDayOfWeek() == 1 && now.getDayOfWeek('-07:00') == 0")).toBe(true);
    expect(evaluate('now.getFullYear() == 2026 && now.getMonth() == 5 && now.getDate() == 15')).toBe(true);
    expect(evaluate('now.getDayOfMonth() == 14 && now.getDayOfYear() == 165')).toBe(true);
    expect(evaluate('now.getSeconds() == 45 && now.getMilliseconds() == 678')).toBe(true);
    expect(evaluate("now - duration('90m') < now && now - now == duration('0s')")).toBe(true);
    expect(evaluate("duration('-1.5s') < duration('0') && duration('90m').getHours() == 1")).toBe(true);
    expect(evaluate("string(duration('-1h1.5s')) == '-3601.500s'")).toBe(true);
    expect(evaluate("string(now) == '2026-06-15T06:30:45.678Z' && int(now) == 1781505045")).toBe(true);
    const summer = { nowMs: Date.UTC(2026, 2, 29, 1, 30) };
    expect(evaluate("now.getHours('Europe/Berlin') == 3", summer)).toBe(true);
    expect(evaluate("now.getHours('Europe/Berlin') == 1", { nowMs: summer.nowMs - 3_600_000 })).toBe(true);
    expect(evaluate("timestamp('0001-01-01T00:00:00Z') - duration('1s') < now")).toBe("'-' overflows");
  });
});

describe('steps', () => {
  it.each([
    ['request.arguments.limit == 5 && has(request.domain)', 0],
    ['[1, 2, 3].all(x, x > 0)', 3],
    [`[1, 2].all(x, ${'x > 0 && '.repeat(17)}true)`, 4],
    ['[1, 2, 3].exists(x, x == 2)', 2],
    ['[1, 2].all(x, [1, 2].all(y, true))', 6],
    ["'b' in request.arguments.tags", 2],
    ["request.arguments.tags == ['a', 'c']", 2],
    ['request.arguments.nested == {"deep": {"value": true}}', 4],
    ['request.arguments.nested.all(key, true)', 2],
    ['size([1] + [2]) == 2', 2],
  ])('%s takes %i', (source, steps) => {
    expect(stepsOf(source)).toBe(steps);
  });

  it.each([
    ["request.arguments.matches('b')", 4],
    ["request.arguments.matches('(a|b){9}c')", 16],
    ['request.arguments.contains("b")', 4],
    ['request.arguments.startsWith("b")', 1],
    ["now.getHours('UTC') > 0", 1],
    ['size(request.arguments) > 0', 4],
    ['int(request.arguments) > 0', 4],
    ['int(1.5) > 0', 1],
    ['request.arguments == request.arguments', 3],
    ['request.arguments == "a"', 0],
    ['request.arguments + "a" < "a"', 4],
  ])('%s takes a step for 64 characters', (source, steps) => {
    expect(stepsOf(source, withArguments(long(250)))).toBe(steps);
  });

  it('stops at once when they are used up, and no operator passes over that', () => {
    const items = { ...variables.request, arguments: Array.from({ length: 150 }, (_, at) => at) };
    const nested = 'request.arguments.all(a, request.arguments.all(b, request.arguments.all(c, c >= 0)))';
    const used = 'the conditions of this decision take too many steps';
    expect(evaluate(nested, { request: items })).toBe(used);
    expect(evaluate(`${nested} || true`, { request: items })).toBe(used);
    expect(evaluate(`!(${nested} && false)`, { request: items })).toBe(used);
  });
});
