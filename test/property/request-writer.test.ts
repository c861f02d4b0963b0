import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { RequestWriter, stepsMax, stepsPerDocumentMax } from '../../shared/crypto/request-writer.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseCheckBody, parseRequestFacts } from '../../shared/wire/api/check.ts';
import { assertSafeJson, parseJsonText } from '../../shared/wire/api/json.ts';
import { plainRequest } from '../../sidecar/intake/in-process/plain-request.ts';
import { readCheck } from '../../sidecar/intake/read-check.ts';
import { runs } from '../support/base/runs.ts';
import { aPassport } from '../unit/decision/samples.ts';

/** Few names, so that lists of them come again; some are refused. */
const names = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom('a', 'b', 'amount', 'permission_key', 'Z', '10', '2', '', '"', '\\'),
  },
  { weight: 2, arbitrary: fc.constantFrom('é', '\u{1f600}', '\uffff', '\n', '\x7f', 'constructor') },
  { weight: 1, arbitrary: fc.constantFrom('__proto__', '\ud800') },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 4 }) },
);
const leaves: Arbitrary<unknown> = fc.oneof(
  fc.string({ maxLength: 5 }),
  fc.string({ unit: 'binary', maxLength: 5 }),
  fc.constantFrom('orders:create', '\\', '"', '\x7f', '\u2028', '\ud800', '\udc00a'),
  fc.double(),
  fc.constantFrom(0, -0, 1e21, 1e-7, 12.5),
  fc.boolean(),
  fc.constant(null),
);

/** JSON texts with all that a caller can write and JSON.stringify would not. */
const texts: Arbitrary<string> = fc.letrec<{ value: string; list: string; object: string; deep: string }>(
  (tie) => ({
    value: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      leaves.map((leaf) =>
        typeof leaf === 'number' && !Number.isFinite(leaf) ? '1e999' : JSON.stringify(leaf),
      ),
      tie('list'),
      tie('object'),
      { weight: 1, arbitrary: tie('deep') },
    ),
    list: fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(', ')}]`),
    object: fc
      .array(fc.tuple(names, tie('value')), { maxLength: 12 })
      .map((members) => `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join()}}`),
    deep: fc
      .integer({ min: limits.jsonDepthMax - 2, max: limits.jsonDepthMax + 2 })
      .map((depth) => '['.repeat(depth) + ']'.repeat(depth)),
  }),
).value;

/** The reference. */
function expectedOf(value: unknown): string | null {
  try {
    assertSafeJson(value);
  } catch {
    return null;
  }
  return canonicalJson(value);
}

const isPlainText = (text: string) => /^[\0-\x7f]*$/.test(text) && !text.includes('\\');

describe('RequestWriter', () => {
  it('writes what canonicalJson writes, and nothing for what assertSafeJson refuses', () => {
    // One for all documents, as in a sidecar.
    const writer = new RequestWriter();
    fc.assert(
      fc.property(texts, (text) => {
        const value: unknown = JSON.parse(text);
        const expected = expectedOf(value);
        expect(writer.write(value, { depth: 0, isUnescaped: false })).toBe(expected);
        if (isPlainText(text)) expect(writer.write(value, { depth: 0, isUnescaped: true })).toBe(expected);
        // Again, with the lists of the first time known.
        expect(writer.write(value, { depth: 0, isUnescaped: isPlainText(text) })).toBe(expected);
      }),
      { numRuns: runs({ short: 500, long: 100_000 }) },
    );
    expect(writer.steps).toBeLessThanOrEqual(stepsMax);
  });

  it('keeps no long lists and no long names', () => {
    const writer = new RequestWriter();
    const long = { ['x'.repeat(65)]: 1 };
    const many = Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`name_${i}`, i]));
    for (const value of [long, many]) {
      expect(writer.write(value, { depth: 0, isUnescaped: true })).toBe(canonicalJson(value));
    }
    expect(writer.steps).toBe(0);
  });

  it('completes a list that is longer than what one document may add', () => {
    const writer = new RequestWriter();
    const members = Array.from({ length: 3 * stepsPerDocumentMax }, (_, i) => [`name_${i}`, i]);
    for (let i = 0; i < 5; i++) writer.write(Object.fromEntries(members), { depth: 0, isUnescaped: true });
    expect(writer.plansMade).toBe(3);
    expect(writer.steps).toBe(members.length);
  });

  it('keeps usual lists quick, and its memory bounded, among lists that never come again', () => {
    const writer = new RequestWriter();
    const usual = { permission_key: 'orders:create', amount: 1, order: { sku: 'A', quantity: 2 } };
    const hostile = 3_000;
    let madeForUsual = 0;
    for (let i = 0; i < hostile; i++) {
      const made = writer.plansMade;
      writer.write(usual, { depth: 0, isUnescaped: true });
      madeForUsual += writer.plansMade - made;
      // Many lists in one document, and a long one.
      const strange = Array.from({ length: 20 }, (_, k) => ({ [`k${i}_${k}`]: { [`v${i}_${k}`]: 1, z: 2 } }));
      writer.write(strange, { depth: 0, isUnescaped: true });
      writer.write({ ...strange[0], [`long${i}`]: 1, ...usual }, { depth: 0, isUnescaped: true });
      expect(writer.steps).toBeLessThanOrEqual(stepsMax);
    }
    // The writer begins anew after as many documents as its steps allow, and then makes two plans again.
    expect(madeForUsual).toBeLessThan(
      2 + (2 * 2 * hostile * stepsPerDocumentMax) / (stepsMax - stepsPerDocumentMax) + 2,
    );
  });
});

describe('RequestWriter with a copy', () => {
  /** What programs put into a request. */
  const fromPrograms = fc.letrec<{ value: unknown; object: object }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      leaves,
      fc.constantFrom(undefined, () => 1, 1n, Symbol('a'), Number.NaN),
      fc.date({ noInvalidDate: true }),
      fc.array(tie('value'), { maxLength: 4 }),
      tie('object'),
    ),
    object: fc
      .array(fc.tuple(names, tie('value')), { maxLength: 8 })
      .map((members) => Object.fromEntries(members)),
  })).object;

  it('copies and writes what one after the other would, or leaves it to them', () => {
    const writer = new RequestWriter();
    let copied = 0;
    fc.assert(
      fc.property(
        fc.oneof(
          fromPrograms,
          texts.map((text) => ({ value: JSON.parse(text) })),
        ),
        (given) => {
          const written = writer.writeCopy(given, { depth: 1 });
          if (written === null) return;
          copied++;
          const plain = plainRequest(given);
          // With the members in their order, which a redacted copy keeps.
          expect(JSON.stringify(written.copy)).toBe(JSON.stringify(plain));
          expect(written.copy).toEqual(plain);
          expect(written.text).toBe(expectedOf(plain));
        },
      ),
      { numRuns: runs({ short: 500, long: 100_000 }) },
    );
    expect(copied, 'requests that were copied').toBeGreaterThan(100);
  });

  it('is a copy at every level', () => {
    const order = { items: [{ sku: 'a' }] };
    const written = new RequestWriter().writeCopy({ order }, { depth: 1 });
    order.items[0] = { sku: 'b' };
    order.items.push({ sku: 'c' });
    expect(written).toEqual({
      copy: { order: { items: [{ sku: 'a' }] } },
      text: '{"order":{"items":[{"sku":"a"}]}}',
    });
  });

  it('asks a getter once', () => {
    let calls = 0;
    const given = {
      get amount() {
        return ++calls;
      },
    };
    expect(new RequestWriter().writeCopy(given, { depth: 1 })).toEqual({
      copy: { amount: 1 },
      text: '{"amount":1}',
    });
  });

  it('gives up a request whose getter writes another one', () => {
    const writer = new RequestWriter();
    const given = {
      note: 'outer',
      order: {
        get sku() {
          writer.writeCopy({ note: 'inner', sku: 'x' }, { depth: 1 });
          return 'a';
        },
      },
    };
    expect(writer.writeCopy(given, { depth: 1 })).toBeNull();
  });

  it('reads no more of objects that refer to the same ones than a request may have characters', () => {
    let reads = 0;
    const leaf = {
      get sku() {
        return ++reads;
      },
    };
    // A text of it would have a million leaves.
    let given: object = leaf;
    for (let level = 0; level < 20; level++) given = { a: given, b: given };
    expect(new RequestWriter().writeCopy(given, { depth: 1 })).toBeNull();
    expect(reads).toBeLessThan(limits.bodyBytesMax);
  });

  it.each([
    ['a list', []],
    ['what has a JSON form of its own', { at: new Date(0) }],
    ['a text', { note: 'x'.repeat(limits.bodyBytesMax) }],
    ['many members', Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`m${i}`, 1]))],
    ['a long list', { list: Array.from({ length: limits.bodyBytesMax }, () => 1) }],
  ])('leaves to others: %s', (_name, given) => {
    expect(new RequestWriter().writeCopy(given, { depth: 1 })).toBeNull();
  });
});

/** What becomes of a body: the call and the hash of its request, or the error. */
function outcomeOf(
  read: () => { readonly passport: string; readonly request: object; readonly hash: string },
) {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { code: error.code, param: error.param, message: error.message };
  }
}

describe('readCheck', () => {
  // Whatever passport it is: what was known before, and read as it is.
  const passport = aPassport();
  const known = (token: string) => (token === 'a.b.c' ? passport : null);
  const plainRequests = fc
    .dictionary(
      fc.stringMatching(/^[a-z]{1,3}$/),
      fc.oneof(fc.integer(), fc.stringMatching(/^[ -!#-[\]-~]*$/)),
    )
    .map((members) => JSON.stringify(members));
  const bodies = fc.oneof(
    { weight: 4, arbitrary: texts.map((request) => `{"passport":"a.b.c","request":${request}}`) },
    { weight: 2, arbitrary: texts.map((request) => `{"passport":"unknown\u0001","request":${request}}`) },
    { weight: 2, arbitrary: texts.map((request) => `{"passport": "a.b.c", "request": ${request}}`) },
    { weight: 4, arbitrary: plainRequests.map((request) => `{"passport":"a.b.c","request":${request}}`) },
    { weight: 2, arbitrary: plainRequests.map((request) => `{"passport": "a.b.c", "request": ${request}}`) },
    { weight: 1, arbitrary: texts.map((text) => `{"passport":"a.b.c","request":{"a":1},"request":${text}}`) },
    { weight: 1, arbitrary: texts.map((text) => `{"passport":"a.b.c","request":{},"more":${text}}`) },
    { weight: 1, arbitrary: texts.map((text) => `{"passport":"a.b.c","request":${text}}}`) },
    { weight: 1, arbitrary: texts.map((request) => `{ "request" : ${request} , "passport" : "ü\\ud800" }`) },
    { weight: 1, arbitrary: texts },
    { weight: 1, arbitrary: texts.map((text) => text.slice(0, -1)) },
  );

  it('reads the same, or refuses with the same error, as parsing, checking and hashing one after the other', () => {
    const writer = new RequestWriter();
    let usual = 0;
    fc.assert(
      fc.property(bodies, (text) => {
        const body = Buffer.from(text);
        const read = outcomeOf(() => {
          const { call, canonical, passport: found } = readCheck(body, writer, known);
          if (found !== null) expect(call.passport).toBe('a.b.c');
          usual += found === null ? 0 : 1;
          const { requestHash: hash } = parseRequestFacts(call.request, 'request', canonical);
          return { ...call, hash };
        });
        const expected = outcomeOf(() => {
          const call = parseCheckBody(text === '' ? {} : parseJsonText(text));
          const { requestHash: hash } = parseRequestFacts(call.request);
          return { ...call, hash };
        });
        expect(read).toEqual(expected);
      }),
      { numRuns: runs({ short: 500, long: 100_000 }) },
    );
    expect(usual, 'bodies of which the request alone was parsed').toBeGreaterThan(50);
  });

  it('leaves proof and approval_id out of the hash', () => {
    const body = Buffer.from('{"passport":"t","request":{"proof":1,"b":2,"approval_id":"x","a":1}}');
    const { call, canonical } = readCheck(body, new RequestWriter(), known);
    expect(parseRequestFacts(call.request, 'request', canonical).requestHash).toBe(
      contentHash({ a: 1, b: 2 }),
    );
  });

  it('refuses bytes that are not UTF-8, and names the missing field of an empty body', () => {
    const read = (body: Buffer) =>
      outcomeOf(() => ({ ...readCheck(body, new RequestWriter(), known).call, hash: '' }));
    expect(read(Buffer.from([0x7b, 0xff, 0x7d]))).toMatchObject({ code: 'invalid_json' });
    // Also in the request alone, after a token that is known.
    const broken = Buffer.from('{"passport":"a.b.c","request":{"note":"\xff"}}', 'latin1');
    expect(read(broken)).toMatchObject({ code: 'invalid_json' });
    expect(read(Buffer.alloc(0))).toMatchObject({ code: 'invalid_request', param: 'passport' });
  });
});
