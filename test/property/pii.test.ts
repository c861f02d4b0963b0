import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../shared/model/constraints.ts';
import { limits } from '../../shared/model/limits.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import { corpus } from '../pii/corpus.ts';
import { codePoint } from '../support/base/arbitrary-text.ts';
import { runs } from '../support/base/runs.ts';

const numRuns = runs({ short: 100, long: 40_000 });

/** Pieces of personal data, of near misses and of what lies between, put together at random. */
const piece = fc.oneof(
  fc.constantFrom(...corpus.map(({ text }) => text)),
  fc.constantFrom(
    ...[' ', '-', '.', '@', ':', '/', '(', '+', '0', '00', 'tel ', 'ssn ', 'DE', '[redacted:email]'],
    ...['\0', '٤', '—'],
  ),
  fc.string({ unit: codePoint, maxLength: 6 }),
  fc.stringMatching(/^[0-9 .-]{1,12}$/),
);
const text = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
const name = fc.oneof(text, fc.constantFrom('phone', 'ssn', 'note', 'order_id', '__proto__', 'a/b', 'm~n'));
const { request } = fc.letrec<{ value: unknown; request: Record<string, unknown> }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.double(),
    fc.constantFrom(null, true, 4155550132),
    fc.array(tie('value'), { maxLength: 4 }),
    tie('request'),
  ),
  request: fc
    .array(fc.tuple(name, tie('value')), { maxLength: 4 })
    .map((members) => Object.fromEntries(members)),
}));
const types = fc.subarray([...piiTypes], { minLength: 1 });

describe('personal data in any request', () => {
  it('is not found again in the redacted copy, and the request is not touched', () => {
    fc.assert(
      fc.property(request, types, (given, wanted) => {
        fc.pre(scanPii(given, wanted).isComplete);
        const before = JSON.stringify(given);
        const { request: copy } = redactRequest(given, wanted);
        expect(JSON.stringify(given)).toBe(before);
        expect(scanPii(copy, wanted).findings).toEqual([]);
      }),
      { numRuns },
    );
  });

  it('is pointed at within bounds, each place once, at a string or at an object or list around it', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(request, types, (given, wanted) => {
        const { findings } = scanPii(given, wanted);
        expect(findings.length).toBeLessThanOrEqual(limits.piiFindingsMax);
        expect(new Set(findings.map(({ pointer, type }) => `${type} ${pointer}`)).size).toBe(findings.length);
        for (const { pointer, type } of findings) {
          seen.add(type);
          expect(wanted).toContain(type);
          expect(pointer.length).toBeLessThanOrEqual(limits.piiPointerCharsMax);
          expect(pointer).not.toContain('\0');
          expect(pointer.isWellFormed()).toBe(true);
          expect(['string', 'object']).toContain(typeof resolve(given, pointer));
        }
      }),
      { numRuns },
    );
    // The control: a scan that finds nothing would keep every promise of this page.
    expect(seen.size).toBeGreaterThan(0);
  });

  it('is not in its findings: a scan of the pointers finds nothing', () => {
    fc.assert(
      fc.property(request, (given) => {
        for (const { pointer } of scanPii(given, piiTypes).findings) {
          for (const step of pointer.split('/')) {
            const said = step.replaceAll('~1', '/').replaceAll('~0', '~');
            expect(scanPii({ [said]: 0 }, piiTypes).findings).toEqual([]);
          }
        }
      }),
      { numRuns },
    );
  });
});

/** RFC 6901, written apart from the scan. Throws where the pointer leads nowhere. */
function resolve(document: unknown, pointer: string): unknown {
  let value = document;
  for (const step of pointer.split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key))
      throw new Error(`nothing at ${pointer}`);
    value = Object.getOwnPropertyDescriptor(value, key)?.value;
  }
  return value;
}
