import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonPointer } from '../../../shared/model/federation.ts';
import { matches, valueAt } from '../../../shared/verification/map-claims.ts';
import { runs } from '../../support/runs.ts';

const at = (pointer: string) => pointer as JsonPointer;

describe('a pattern of subjects', () => {
  it('fits as the regular expression does that it stands for', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', ':', '.'), maxLength: 12 });
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', ':', '.', '*'), maxLength: 8 });
    fc.assert(
      fc.property(pattern, text, (shape, subject) => {
        const plain = shape
          .split('*')
          .map((part) => part.replaceAll('.', '\\.'))
          .join('.*');
        expect(matches(shape, subject)).toBe(new RegExp(`^${plain}$`, 's').test(subject));
      }),
      { numRuns: runs({ short: 2_000, long: 200_000 }) },
    );
  });

  it('takes no longer for a hostile one', () => {
    const pattern = '*a'.repeat(120);
    expect(matches(pattern, `${'a'.repeat(254)}b`)).toBe(false);
  });
});

describe('a pointer into a token', () => {
  const claims = { 'a/b': { '~': [1, { c: null }] }, toString: 'own', sub: 'x' };

  it.each([
    ['/sub', 'x'],
    ['/a~1b/~0/0', 1],
    ['/a~1b/~0/1/c', null],
    ['/toString', 'own'],
    ['/missing', undefined],
    ['/sub/0', undefined],
    ['/constructor', undefined],
    ['/a~1b/__proto__', undefined],
  ])('%s leads to what is there and to nothing inherited', (pointer, value) => {
    expect(valueAt(claims, at(pointer))).toBe(value);
  });
});
