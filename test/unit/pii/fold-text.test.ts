import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { foldText } from '../../../shared/pii/fold-text.ts';
import { codePoint } from '../../support/base/arbitrary-text.ts';

describe('folding a text', () => {
  it('reads the digits of every script', () => {
    for (const digits of [
      ...['٠١٢٣٤٥٦٧٨٩', '۰۱۲۳۴۵۶۷۸۹', '०१२३४५६७८९', '๐๑๒๓๔๕๖๗๘๙', '０１２３４５６７８９', '𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗'],
      '𞥐𞥑𞥒𞥓𞥔𞥕𞥖𞥗𞥘𞥙',
    ]) {
      expect(foldText(digits)).toBe('0123456789');
    }
  });

  it('knows a value for every decimal digit of Unicode, each as often as the others', () => {
    const counts = new Array<number>(10).fill(0);
    for (let code = 0; code < 0x110000; code += 1) {
      const character = code >= 0xd800 && code <= 0xdfff ? '' : String.fromCodePoint(code);
      if (!/\p{Nd}/u.test(character)) continue;
      const value = Number(foldText(character));
      counts[value] = (counts[value] ?? 0) + 1;
    }
    expect(counts[0]).toBeGreaterThan(60);
    expect(new Set(counts).size).toBe(1);
  });

  it('turns dashes into hyphens and removes invisible characters', () => {
    expect(foldText('1\u20112\u20133\u22124')).toBe('1-2-3-4');
    expect(foldText('\u202a+4\u200b9\u00ad 3\u202c')).toBe('+49 3');
    expect(foldText('👩\u200d💻')).toBe('👩\u200d💻');
  });

  it('leaves a folded text unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: codePoint, maxLength: 20 }), (text) => {
        expect(foldText(foldText(text))).toBe(foldText(text));
      }),
    );
  });
});
