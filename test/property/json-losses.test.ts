import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isLossless, jsonLosses } from '../../shared/crypto/json-losses.ts';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { parseJsonText } from '../../shared/wire/api/json.ts';
import { refusal } from '../support/base/refusal.ts';
import { runs } from '../support/base/runs.ts';

/** A number as a fraction, exactly. Exponents of the generated ones are small enough to write out. */
function fractionOf(literal: string): readonly [bigint, bigint] {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const power = Number(exponent) - fraction.length;
  const digits = BigInt(`${whole}${fraction}`.replace('-', ''));
  const signed = literal.startsWith('-') ? -digits : digits;
  return power >= 0 ? [signed * 10n ** BigInt(power), 1n] : [signed, 10n ** BigInt(-power)];
}

function keepsNumber(literal: string): boolean {
  const value = Number(literal);
  if (!Number.isFinite(value)) return false;
  const [a, b] = fractionOf(literal);
  const [c, d] = fractionOf(String(value));
  return a * d === c * b;
}

/** JSON as a tree of texts, of which it is known what a reader loses. */
interface Written {
  readonly text: string;
  readonly isWhole: boolean;
}

const digits = (max: number) => fc.stringMatching(new RegExp(`^[0-9]{1,${max}}$`));
const numbers: Arbitrary<string> = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.constantFrom('1e2', '1e3', '1e8', '1E+21', '5e-3', '15e-5', '1e21', '1000', '-0', '-0.0e7', '0e999'),
  fc.constantFrom('1312345678901234561', '9007199254740993', '1e400', '1e-400', '3e-324', '0.10', '1.50e1'),
  fc
    .tuple(
      fc.constantFrom('', '-'),
      digits(25),
      fc.option(digits(25)),
      fc.option(fc.integer({ min: -340, max: 330 })),
    )
    .map(([sign, whole, fraction, exponent]) => {
      const integer = whole.replace(/^0+(?=\d)/, '');
      return `${sign}${integer}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`;
    }),
);
const strings = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom('1e400', '"', '\\', '\\"', ':', '{"a":1', '12345678901234567890'),
);
/** The same name in several spellings. */
const names: Arbitrary<readonly [name: string, text: string]> = fc.oneof(
  fc.constantFrom('a', 'b', '', '1').map((name) => [name, JSON.stringify(name)] as const),
  fc.constant(['a', '"\\u0061"'] as const),
  strings.map((name) => [name, JSON.stringify(name)] as const),
);
const blanks = fc.constantFrom('', '', '', ' ', '\n\t');

const documents: Arbitrary<Written> = fc.letrec<{ value: Written; list: Written; object: Written }>(
  (tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      numbers.map((text) => ({ text, isWhole: keepsNumber(text) })),
      strings.map((text) => ({ text: JSON.stringify(text), isWhole: true })),
      fc.constantFrom('true', 'null', '[]', '{}').map((text) => ({ text, isWhole: true })),
      tie('list'),
      tie('object'),
    ),
    list: fc.tuple(fc.array(tie('value'), { maxLength: 4 }), blanks).map(([items, blank]) => ({
      text: `[${blank}${items.map(({ text }) => text).join(`,${blank}`)}]`,
      isWhole: items.every(({ isWhole }) => isWhole),
    })),
    object: fc
      .tuple(fc.array(fc.tuple(names, tie('value')), { maxLength: 5 }), blanks)
      .map(([members, blank]) => ({
        text: `{${blank}${members.map(([[, name], { text }]) => `${name}${blank}:${blank}${text}`).join(`,${blank}`)}}`,
        isWhole:
          new Set(members.map(([[name]]) => name)).size === members.length &&
          members.every(([, { isWhole }]) => isWhole),
      })),
  }),
).object;

describe('isLossless', () => {
  it('agrees with exact arithmetic and with lists of names, and so does what names the places', () => {
    const seen = { whole: 0, lost: 0 };
    fc.assert(
      fc.property(documents, ({ text, isWhole }) => {
        expect(isLossless(text, JSON.parse(text))).toBe(isWhole);
        expect([...jsonLosses(text)].length === 0).toBe(isWhole);
        seen[isWhole ? 'whole' : 'lost']++;
      }),
      { numRuns: runs({ short: 2_000, long: 200_000 }) },
    );
    expect(Math.min(seen.whole, seen.lost)).toBeGreaterThan(100);
  });

  it('is what a writer says that has written the value, which looks at lengths first', () => {
    const writer = new RequestWriter();
    fc.assert(
      fc.property(documents, ({ text, isWhole }) => {
        if (writer.write(JSON.parse(text), { depth: 0, isUnescaped: false }) === null) return;
        expect(writer.isWholeOf(text), text).toBe(isWhole);
        // The same with others around it.
        const around = { chars: '{"id":"f1","a":}'.length, members: 2 };
        expect(writer.isWholeOf(`{"id":"f1","a":${text}}`, around)).toBe(isWhole);
        expect(writer.isWholeOf(`{"id":"f1","id":"f1","a":${text}}`, around)).toBe(false);
      }),
      { numRuns: runs({ short: 5_000, long: 500_000 }) },
    );
  });

  it.each([
    // As long as their canonical forms.
    ...['{"a":1,"a":1e8}', '{"a":1,"a":12e8}', '{"a":1312345678901234561}', '{"a":[3e-324]}'],
    '{"":0,"":1e-6,"c":5e-3}',
  ])('is false of %s, also with a writer at hand', (text) => {
    const writer = new RequestWriter();
    const value: unknown = JSON.parse(text);
    writer.write(value, { depth: 0, isUnescaped: true });
    expect(writer.isWholeOf(text)).toBe(false);
    expect(isLossless(text, value)).toBe(false);
  });

  it.each([
    ['an exponent of ten digits', '[1e1000000000,1e-1000000000,0e1000000000]'],
    ['a megabyte of digits', `[${'1'.repeat(1_000_000)}]`],
    ['runs of zeros within a number', `[1${'0000000001'.repeat(100_000)}]`],
    ['a megabyte of backslashes', `["${'\\\\'.repeat(500_000)}"]`],
    ['half a million lists in one another', '['.repeat(500_000) + ']'.repeat(500_000)],
    [
      'losses at the bottom of a deep list',
      `${'['.repeat(100_000)}${'1e999,'.repeat(100_000)}1${']'.repeat(100_000)}`,
    ],
    ['a hundred thousand names twice', `{${'"a":1,"b":2,'.repeat(100_000)}"c":3}`],
  ])('takes time that grows with the text: %s', (_name, text) => {
    const cpu = process.cpuUsage();
    const value: unknown = JSON.parse(text);
    const isWhole = isLossless(text, value);
    let losses = 0;
    for (const _loss of jsonLosses(text)) losses++;
    expect(losses === 0).toBe(isWhole);
    // A square of a megabyte would take minutes.
    expect(process.cpuUsage(cpu).user).toBeLessThan(5_000_000);
  });
});

it.each([
  ['{"account_id":1312345678901234561}', 'account_id'],
  ['{"request":{"items":[1,{"id":0.12345678901234567}]}}', 'request.items.1.id'],
  ['{"a":1,"\\u0061":1}', 'a'],
  ['{"request":{"jane@example.com":1e-400}}', 'request'],
  ['1e-400', 'body'],
])('a body that is not I-JSON %s is refused, naming the place', (text, param) => {
  expect(refusal(() => parseJsonText(text))).toMatchObject({ code: 'invalid_request', param });
});
