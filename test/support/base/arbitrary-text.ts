import fc from 'fast-check';
import { isLong } from './runs.ts';

// Units for `fc.string`. Those of fast-check, which the long form of a test takes, are computed from all of
// Unicode for the first string that uses one: a second in each worker.

const surrogatesFirst = 0xd800;
const surrogateCount = 0x800;

/** Any code point but a surrogate. */
export const codePoint: 'binary' | fc.Arbitrary<string> = isLong
  ? 'binary'
  : fc
      .nat(0x10ffff - surrogateCount)
      .map((place) => String.fromCodePoint(place < surrogatesFirst ? place : place + surrogateCount));

/** What is printed as one character, of one code point or several. */
export const grapheme: 'grapheme' | fc.Arbitrary<string> = isLong
  ? 'grapheme'
  : fc.constantFrom(
      ...`azAZ09 !"#$%&'()*+,-./:;<=>?@[\\]^_\`{|}~`,
      ...'\u00a0éßñøĳŁΩжשع中語あｱ한ﬁＡ１٣½€™′∑😀🀄𝔘𐍈\ufffd',
      ...['e\u0301', 'o\u0308\u0304', 'ก็', '한', '🇨🇭', '👍🏽', '👩‍👩‍👧'],
    );
