import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalEmail, parseEmail } from '../../../shared/wire/api/email.ts';
import { codePoint } from '../../support/base/arbitrary-text.ts';

describe('an email address has one canonical form', () => {
  it.each([
    ['Ada@Example.COM', 'ada@example.com'],
    ['ÖZIL@example.com', 'özil@example.com'],
    ['ada@bücher.example', 'ada@xn--bcher-kva.example'],
    ['ada@straße.example', 'ada@xn--strae-oqa.example'],
    ["o'hara+tag=1@sub.example.com", "o'hara+tag=1@sub.example.com"],
    ['root@localhost', 'root@localhost'],
    // Capital letters whose small ones have their mark in the same character.
    ['J\u030cAN@example.com', '\u01f0an@example.com'],
    ['W\u030a.T\u0308@example.com', '\u1e98.\u1e97@example.com'],
    ['\u0124\u0331@example.com', '\u1e96\u0302@example.com'],
  ])('%s is %s', (text, email) => {
    expect(parseEmail(text)).toBe(email);
    expect(parseEmail(email)).toBe(email);
  });

  it.each([
    ['a Kelvin sign', 'kir\u212a@example.com'],
    ['a long s', 'ru\u017f@example.com'],
    ['full-width letters', '\uff41da@example.com'],
    ['a ligature', '\ufb01sh@example.com'],
    ['a decomposed letter', 'o\u0308zil@example.com'],
    ['an ideographic full stop', 'ada@example\u3002com'],
    ['a full-width at sign', 'ada\uff20example.com'],
    ['a zero-width space', 'a\u200bda@example.com'],
    ['a soft hyphen in the domain', 'ada@exam\u00adple.com'],
    ['a combining grapheme joiner', 'a\u034fda@example.com'],
    ['a bidirectional override', 'ada\u202e@example.com'],
    ['a no-break space', 'ada\u00a0@example.com'],
    ['a lone surrogate', 'ada\ud800@example.com'],
    ['a control character', 'ada\u0000@example.com'],
    ['a capital I with a dot', '\u0130da@example.com'],
    ['an i with a second dot', 'i\u0307da@example.com'],
    ['a j with a second dot in the domain', 'ada@j\u0307oe.example'],
  ])('%s is refused rather than mapped', (_what, text) => {
    expect(canonicalEmail(text)).toEqual({ fault: 'not canonical' });
    expect(() => parseEmail(text)).toThrow('Type the address with plain letters');
  });

  it.each([
    ...['', 'ada', '@example.com', 'ada@', 'ada@example.com.', 'ada@example.com:25', 'ada@[127.0.0.1]'],
    ...['ada@127.0.0.1', '"ada"@example.com', 'ada(comment)@example.com', '<ada@example.com>'],
    'ada@xn--a.example',
    `${'a'.repeat(65)}@example.com`,
    `ada@${'a.'.repeat(200)}example`,
  ])('%j is no address', (text) => {
    expect(canonicalEmail(text)).toEqual({ fault: 'no address' });
  });

  it('is a fixed point, and no two that a reader cannot tell apart are two', () => {
    const marked = fc
      .tuple(fc.constantFrom(...'AHIJTWYhijtwyΣΑΩΥ\u0124\u0130'), fc.integer({ min: 0x300, max: 0x36f }))
      .map(([letter, mark]) => letter + String.fromCharCode(mark));
    const text = fc
      .array(fc.oneof(fc.string({ unit: codePoint, minLength: 1, maxLength: 1 }), marked), { maxLength: 20 })
      .map((units) => units.join(''));
    const address = fc
      .tuple(text, fc.constantFrom('example.com', 'bücher.example', 'ΣΑΣ.example'))
      .map(([local, domain]) => `${local}@${domain}`);
    fc.assert(
      fc.property(fc.oneof(address, text), (given) => {
        const parsed = canonicalEmail(given);
        if ('fault' in parsed) return;
        expect(canonicalEmail(parsed.email)).toEqual(parsed);
        expect(parsed.email).toBe(parsed.email.normalize('NFKC').toLowerCase());
        expect(parsed.email).not.toMatch(/\p{Default_Ignorable_Code_Point}/u);
      }),
    );
  });
});
