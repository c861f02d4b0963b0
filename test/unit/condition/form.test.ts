import { describe, expect, it } from 'vitest';
import { factAt } from '../../../shared/condition/fact-at.ts';
import { parseForm } from '../../../shared/condition/form.ts';
import { readsOf } from '../../../shared/condition/reads-of.ts';
import { formOf, variables } from './evaluate.ts';

const x = ['local', 'x'];
const yes = ['bool', true];

describe('parseForm', () => {
  it.each([
    ['another number', { form: 2, expr: yes }],
    ['a member more', { form: 1, expr: yes, more: 1 }],
    ['no expression', { form: 1 }],
    ['null', null],
    ['a text', 'true'],
  ])('refuses %s', (_what, value) => {
    expect(parseForm(value)).toBe(null);
  });

  it.each([
    ['an unknown node', ['eval', 'x']],
    ['an unknown function', ['call', 'constructor', yes]],
    ['no function', ['call']],
    ['an operand too many', ['call', '!_', yes, yes]],
    ['an operand too few', ['call', '_+_', yes]],
    ['a variable that is not there', ['var', 'process']],
    ['a variable that is read whole', ['call', 'size', ['var', 'request']]],
    ['a local outside of its comprehension', ['and', ['all', 'x', ['list'], x], x]],
    ['a local in its own range', ['all', 'x', x, yes]],
    ['an int of 65 bits', ['int', '9223372036854775808']],
    ['an int with zeros in front', ['int', '01']],
    ['an int that is a number', ['int', 1]],
    ['a double that is printed otherwise', ['double', '1.50']],
    ['an infinite double', ['double', 'Infinity']],
    ['a bool that is a text', ['bool', 'true']],
    ['half a pair of UTF-16', ['string', '\ud800']],
    ['a map with a key alone', ['map', ['string', 'a']]],
    ['one term', ['and', yes]],
    ['a computed pattern', ['matches', ['string', 'a'], ['var', 'user'], 1]],
    ['a pattern of another syntax', ['matches', ['string', 'a'], '(?=a)', 1]],
    ['a pattern that takes other steps', ['matches', ['string', 'a'], '^a', 0]],
    ['matches as a function', ['call', 'matches', ['string', 'a'], ['string', '^a']]],
    ['a computed zone', ['call', 'getHours', ['var', 'now'], ['var', 'user']]],
    ['a name with an operator', ['all', 'x y', ['list'], yes]],
    ['a long text', ['string', 'a'.repeat(4097)]],
    ['501 nodes', ['list', ...Array.from({ length: 500 }, () => yes)]],
    ['a deep tree', Array.from({ length: 100_000 }).reduce((node: unknown) => ['list', node], yes)],
  ])('refuses %s', (_what, expr) => {
    expect(parseForm({ form: 1, expr })).toBe(null);
  });

  it('takes each kind of node', () => {
    const source = `[1, 2.5, -0.0].map(i, i > 1, {'a': i}).all(m, m.a in [null, 'x', true] || has(m.b.c))
      && (now.getHours('UTC') < 3 ? user.matches('^a') : request.list[0] == claims['x'])`;
    expect(formOf(source)).toEqual({
      form: 1,
      expr: [
        'and',
        [
          'all',
          'm',
          [
            'each',
            'i',
            ['list', ['int', '1'], ['double', '2.5'], ['double', '-0']],
            ['call', '_>_', ['local', 'i'], ['int', '1']],
            ['map', ['string', 'a'], ['local', 'i']],
          ],
          [
            'or',
            [
              'call',
              '@in',
              ['select', ['local', 'm'], 'a'],
              ['list', ['null'], ['string', 'x'], ['bool', true]],
            ],
            ['has', ['select', ['local', 'm'], 'b'], 'c'],
          ],
        ],
        [
          'if',
          ['call', '_<_', ['call', 'getHours', ['var', 'now'], ['string', 'UTC']], ['int', '3']],
          ['matches', ['var', 'user'], '^a', 1],
          [
            'call',
            '_==_',
            ['index', ['select', ['var', 'request'], 'list'], ['int', '0']],
            ['select', ['var', 'claims'], 'x'],
          ],
        ],
      ],
    });
  });
});

describe('readsOf and factAt', () => {
  it.each([
    ['request.arguments.path == user', ['/request/arguments/path', '/user']],
    ["has(request.a.b) && claims['https://x/~'] == 1", ['/claims/https:~1~1x~1~0', '/request/a/b']],
    ['request.arguments[user] == request.arguments.path', ['/request/arguments', '/user']],
    ['request.list[0].a == 1', ['/request/list']],
    ['request.list.all(x, x == request.other)', ['/request/list', '/request/other']],
    ["'x' in claims", ['/claims/x']],
    ['passport.permissions.size() > 1 && gate.id != "" && now.getHours() > 1', ['/passport/permissions']],
    ['true', []],
  ])('%s reads %j', (source, pointers) => {
    expect(readsOf(formOf(source))).toEqual(pointers);
  });

  it('finds the value at a pointer, or nothing', () => {
    expect(factAt(variables, '/request/arguments/odd key')).toBe(1);
    expect(factAt(variables, '/claims/https:~1~1issuer.example~1level')).toBe(3);
    expect(factAt(variables, '/passport/owner')).toBe(null);
    expect(factAt(variables, '/user')).toBe('ada@example.com');
    expect(factAt(variables, '/request/arguments/tags/0')).toBe(undefined);
    expect(factAt(variables, '/request/arguments/constructor')).toBe(undefined);
    expect(factAt(variables, '/request/arguments/path/length')).toBe(undefined);
  });
});
