import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contentHash } from '../../../../shared/crypto/content-hash.ts';
import { limits } from '../../../../shared/model/limits.ts';
import { assertSafeJson } from '../../../../shared/wire/api/json.ts';
import { plainRequest } from '../../../../sidecar/intake/in-process/plain-request.ts';

const throughText = (value: unknown) => JSON.parse(JSON.stringify(value));

/** What programs put into a request: JSON, and what JSON.stringify makes JSON of, or leaves out. */
const fromPrograms = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: 'grapheme' }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constantFrom(null, undefined, () => 1, Symbol('a')),
    fc.date({ noInvalidDate: true }),
    fc.string().map((text) => ({ toJSON: () => text })),
    fc.constant(new Map([[1, 2]])),
    fc.array(tie('value'), { maxLength: 4 }),
    tie('object'),
  ),
  object: fc.dictionary(
    fc.string().filter((name) => name !== '__proto__' && name !== 'toJSON'),
    tie('value'),
    { maxKeys: 6 },
  ),
}));

const member = { value: 1, enumerable: true };

describe('the plain form of a request', () => {
  it('is what its JSON text says, with the same hash', () => {
    fc.assert(
      fc.property(fromPrograms.object, (request) => {
        const plain = plainRequest(request);
        expect(plain).toEqual(throughText(request));
        expect(contentHash(plain)).toBe(contentHash(throughText(request)));
      }),
    );
  });

  it('holds own members alone, as JSON.stringify does', () => {
    class Order {
      amount = 5;
      get total() {
        return 6;
      }
    }
    expect(plainRequest(new Order())).toEqual({ amount: 5 });
    expect(plainRequest(Object.create({ amount: 5 }))).toEqual({});
  });

  it('calls a getter once, and reads nothing that a symbol names', () => {
    let calls = 0;
    const plain = plainRequest({
      get amount() {
        return ++calls;
      },
      [Symbol('a')]: { toJSON: () => calls++ },
    });
    expect(JSON.stringify(plain)).toBe('{"amount":1}');
    expect(calls).toBe(1);
  });

  it.each([
    ['a text', 'text'],
    ['a list', []],
    ['nothing', undefined],
  ])('is refused where it is %s', (_name, request) => {
    expect(() => plainRequest(request)).toThrow('request must be an object.');
  });

  it('leaves what no JSON text of a check may hold for assertSafeJson to refuse', () => {
    const cycle: Record<string, unknown> = {};
    cycle['again'] = cycle;
    const hostile = JSON.parse('{"__proto__":{"polluted":true}}');
    for (const request of [cycle, hostile, { amount: Number.NaN }, { amount: Infinity }, { a: '\ud800' }]) {
      const body = { passport: '', request: plainRequest(request) };
      expect(() => assertSafeJson(body)).toThrow();
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it('says of a bigint that it has no form', () => {
    expect(() => plainRequest({ amount: 5n })).toThrow('A bigint has no JSON form');
  });

  it.each([
    ['a text', { note: 'x'.repeat(limits.bodyBytesMax) }],
    ['many members', Object.fromEntries(Array.from({ length: limits.bodyBytesMax }, (_, i) => [`m${i}`, 1]))],
    ['a long list', { list: Array.from({ length: limits.bodyBytesMax }, () => 1) }],
  ])('is bounded: %s', (_name, request) => {
    expect(() => plainRequest(request)).toThrow(`at most ${limits.bodyBytesMax} characters`);
  });

  it('reads none of too many members', () => {
    let reads = 0;
    const first = {
      get amount() {
        return ++reads;
      },
    };
    const names = Array.from({ length: limits.bodyBytesMax }, (_, i) => `m${i}`);
    const request = Object.defineProperties(first, Object.fromEntries(names.map((name) => [name, member])));
    expect(() => plainRequest(request)).toThrow('at most');
    expect(reads).toBe(0);
  });
});
