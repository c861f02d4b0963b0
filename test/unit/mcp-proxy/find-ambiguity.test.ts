import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findAmbiguity } from '../../../mcp-proxy/find-ambiguity.ts';

describe('findAmbiguity', () => {
  it('finds none in what a program writes', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        fc.pre(!text.includes('__proto__'));
        expect(findAmbiguity(JSON.stringify(JSON.parse(text), null, 1))).toBeNull();
      }),
    );
  });

  it('finds a duplicate member, at any depth', () => {
    const inner = fc.json().filter((text) => !text.includes('__proto__'));
    fc.assert(
      fc.property(inner, fc.string(), fc.nat(20), (value, name, depth) => {
        fc.pre(name !== '__proto__');
        const twice = `{${JSON.stringify(name)}:${value},"other${name.length}":[], ${JSON.stringify(name)} :1}`;
        const text = `${'[{"a":'.repeat(depth)}${twice}${'}]'.repeat(depth)}`;
        expect(findAmbiguity(text)).toBe('Two members of one object have the same name.');
      }),
    );
  });

  it.each([
    ['{"a":1,"\\u0061":2}', /same name/],
    ['{"a":{"__proto__":1}}', /__proto__/],
    ['{"\\u005f_proto__":1}', /__proto__/],
    ['[9007199254740993]', /too exact/],
    ['{"a":-1e400}', /too large/],
    ['[1e-400]', /too exact/],
    ['0.12345678901234567', /too exact/],
    [`1${'0'.repeat(500)}`, /too large/],
    [`${'['.repeat(101)}${']'.repeat(101)}`, /nested/],
  ])('refuses %s', (text, why) => {
    expect(findAmbiguity(text)).toMatch(why);
  });

  it.each([
    '{"a":1,"A":2,"b":{"a":1}}',
    '[{"a":1},{"a":1}]',
    '{"a":"a","b":"\\"a\\":"}',
    '[-0, 0.0, 1.50, 1E3, 100000000000000000000, 9007199254740992, 1e21, 5e-324, 0e999]',
    `[3.3000000000000003, ${Number.MAX_VALUE}, ${Number.MAX_SAFE_INTEGER}]`,
    `${'['.repeat(100)}${']'.repeat(100)}`,
    '"\\\\"',
    'null',
  ])('takes %s', (text) => {
    expect(findAmbiguity(text)).toBeNull();
  });
});
