import fc, { type Arbitrary } from 'fast-check';
import { expect, it } from 'vitest';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { asciiOf } from '../../sidecar/intake/read-check.ts';
import { nameFrame, readAnyFrame, readFrame } from '../../sidecar/intake/stream/read-frame.ts';
import { runs } from '../support/base/runs.ts';

const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));

const strange: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom('', 'x', 'é', '\ud800', '"\\', 1, null, true, 'x'.repeat(limits.pathParamCharsMax + 1)),
  fc.integer({ min: limits.jsonDepthMax - 3, max: limits.jsonDepthMax + 1 }).map(nested),
);
const usually = (usual: Arbitrary<unknown>): Arbitrary<unknown> =>
  fc.oneof({ weight: 6, arbitrary: usual }, { weight: 1, arbitrary: strange });

const requests = fc.dictionary(
  fc.constantFrom('amount', 'permission_key', 'note', 'é', '\ud800', '10'),
  fc.oneof(strange, fc.double({ noNaN: true, noDefaultInfinity: true })),
  { maxKeys: 4 },
);

const usualMembers = {
  gate_id: usually(fc.constantFrom('gate_1', null)),
  passport: usually(fc.constant('token')),
  request: usually(requests),
};

const usualNames: (keyof typeof usualMembers)[] = ['gate_id', 'passport', 'request'];
const traceMembers = { traceparent: usually(fc.constant('00-a-b-01')), tracestate: usually(fc.string()) };

/** The text of a frame whose id is in order: usual ones, and ones with other members, or in another order. */
const frames: Arbitrary<string> = fc
  .tuple(
    fc.oneof(
      { weight: 3, arbitrary: fc.record(usualMembers) },
      { weight: 2, arbitrary: fc.record({ ...usualMembers, ...traceMembers }, { requiredKeys: usualNames }) },
      { weight: 1, arbitrary: fc.record({ ...usualMembers, more: strange }, { requiredKeys: [] }) },
    ),
    fc.boolean(),
    fc.oneof(
      { weight: 4, arbitrary: fc.constant('') },
      fc.constantFrom(
        ...[',"__proto__":{}', ',"request":{"n":1e999}', ',"gate_id":"gate_2"', ',"traceparent":"x"'],
      ),
    ),
  )
  .map(([members, isReversed, more]) => {
    const all = Object.entries({ id: 'f1', ...members });
    const text = JSON.stringify(Object.fromEntries(isReversed ? all.toReversed() : all));
    return `${text.slice(0, -1)}${more}}`;
  });

const outcomeOf = <T>(read: () => T): T | string => {
  try {
    return read();
  } catch (error) {
    return `${(error as ApiError).code} ${(error as ApiError).param}: ${(error as Error).message}`;
  }
};

it('a frame is read in one walk like member by member', () => {
  const writer = new RequestWriter();
  let usual = 0;
  fc.assert(
    fc.property(frames, (text) => {
      const named = nameFrame(Buffer.from(text));
      const plain = outcomeOf(() => readAnyFrame(named, writer));
      const read = outcomeOf(() => readFrame(named, writer));
      if (typeof read === 'string' || typeof plain === 'string') {
        expect(read).toEqual(plain);
        return;
      }
      usual++;
      const { id: _, gate_id: gateId, traceparent: _1, tracestate: _2, ...call } = named.members;
      expect(read).toEqual({ gateId, read: { call, canonical: canonicalJson(call['request']) } });
      expect(plain).toEqual(read);
    }),
    { numRuns: runs({ short: 1_000, long: 30_000 }) },
  );
  expect(usual).toBeGreaterThan(50);
});

it('a frame that waited as text is read as its bytes are', () => {
  const messages = fc.oneof(
    frames,
    fc.string(),
    fc.constantFrom('', '{"id":"\\u0041"}', '{"id":"a"', '\u007f', '[]'),
  );
  let texts = 0;
  const named = (message: Buffer | string) => outcomeOf(() => nameFrame(message));
  fc.assert(
    fc.property(messages, (text) => {
      const bytes = Buffer.from(text);
      const ascii = asciiOf(bytes);
      expect(ascii).toBe(/^[\0-\x7f]*$/.test(text) ? text : null);
      if (ascii === null) return;
      texts++;
      expect(named(ascii)).toEqual(named(bytes));
    }),
    { numRuns: runs({ short: 1_000, long: 30_000 }) },
  );
  expect(texts).toBeGreaterThan(50);
});

it('the id of a frame is answered as JSON writes it, with any characters', () => {
  let unescaped = 0;
  const ids = fc.oneof(
    fc.string({ minLength: 1, maxLength: 8 }),
    fc.string({ minLength: 1, maxLength: 8, unit: 'binary' }),
    fc.constantFrom('"', '\\', '\n', '\u007f', '\u2028', '/', 'é', '😀'),
  );
  fc.assert(
    fc.property(ids, fc.boolean(), (id, isEscaped) => {
      const json = JSON.stringify(id);
      const text = isEscaped ? json.replaceAll('/', '\\/') : json;
      const named = nameFrame(Buffer.from(`{"id":${text}}`));
      if (named.isUnescaped) unescaped++;
      expect(named).toMatchObject({ id, idJson: json });
    }),
    { numRuns: runs({ short: 1_000, long: 30_000 }) },
  );
  expect(unescaped).toBeGreaterThan(50);
});
