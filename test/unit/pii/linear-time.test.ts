import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../../shared/model/constraints.ts';
import { limits } from '../../../shared/model/limits.ts';
import { findEmails } from '../../../shared/pii/email.ts';
import { foldText } from '../../../shared/pii/fold-text.ts';
import { findIbans } from '../../../shared/pii/iban.ts';
import { findIpAddresses } from '../../../shared/pii/ip-address.ts';
import { findPaymentCards } from '../../../shared/pii/payment-card.ts';
import { findPhones } from '../../../shared/pii/phone.ts';
import { scanPii } from '../../../shared/pii/scan-pii.ts';
import { findSsns } from '../../../shared/pii/us-ssn.ts';
import { cpuMsOf } from '../../support/base/cpu-time.ts';
import { isLong } from '../../support/base/runs.ts';

/**
 * Sixteen times the text takes sixteen times as long where the work is linear, and 256 times where it is
 * quadratic.
 */
const chars = isLong ? 16 * 1024 : 4 * 1024;
const times = 16;
const ratioMax = 60;
/** Below this the clock decides. */
const noiseMs = 1;

const detectors: Readonly<Record<string, (text: string) => unknown>> = {
  email: findEmails,
  phone: (text) => findPhones(text, '', { left: limits.piiPhoneChecksMax, wereTooFew: false }),
  'phone, announced': (text) =>
    findPhones(text, 'phone', { left: limits.piiPhoneChecksMax, wereTooFew: false }),
  payment_card: findPaymentCards,
  iban: findIbans,
  us_ssn: (text) => findSsns(text, ''),
  ip_address: (text) => findIpAddresses(text, ''),
  folding: foldText,
};

/** What makes a scanner begin again and again, or look far back and ahead each time. */
const unkind: readonly string[] = [
  ...['a', '1', '@', '.', ':', '-', '(', ' ', '+', '0', '"', '/', '\0', 'é', '用', '٤', '\u200b', '\ufdfa'],
  ...[
    ...['a@', 'a.', '@a.', 'a@b.', 'a@b.c', 'a@b.cc', '"a', '"@', '//a@', '//:', 'a@b.cc:a/', 'a@b.cc:a'],
    ...['用a@', '%40', 'a%40', 'a%40b.cc', '%2B', '%2B4930', 'a用@'],
  ],
  ...[
    ...['1 ', '1-', '0 ', '+1', '(1', '(+', '1 1-', '12 ', '1234 ', '1234-'],
    ...[
      ...['1--1--', '1 - ', '0)', '(0)', '1()', '1( )', '0. 1', '-0-', '00012--', '012--012', '06 12--'],
      '415-555--',
    ],
    '4111 1111 1111 ',
    '4111111111111111',
    '4111 1111 1111 1111 ',
  ],
  ...['DE89', 'DE89 ', 'DE8 9', 'de11de11', 'DE89370400440532013', 'IBAN', 'IBANDE11'],
  ...['123-45-', '123-45-6789', '123 45 6789 ', 'ssn', 'ssn 12345678', '12345678 '],
  ...['1.', '1.1', '1.1.1.1', '1.1.1.1.', '::', 'a:', '1:', 'f:f:f:f:', ':1.', 'g:', 'g1:', '12:34:56 ', 'f'],
  ...[
    ...['+999123456, ', '0171 3920012, ', '012-345 678 901 ', 'tel 4155550132 ', 'tel 1234567 '],
    ...['[redacted:', '[redacted:email]'],
  ],
];

const textOf = (piece: string, length: number): string =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length);

/**
 * The shortest of several times, taken in turns until the growth is small enough: a busy machine makes times
 * longer, never shorter.
 */
function growth(run: (text: string) => unknown, short: string, long: string): Growth {
  const found = { shortMs: Number.POSITIVE_INFINITY, longMs: Number.POSITIVE_INFINITY };
  for (let round = 0; round < 20; round += 1) {
    found.shortMs = Math.min(
      found.shortMs,
      cpuMsOf(() => run(short)),
    );
    found.longMs = Math.min(
      found.longMs,
      cpuMsOf(() => run(long)),
    );
    if (isLinear(found)) break;
  }
  return found;
}

interface Growth {
  readonly shortMs: number;
  readonly longMs: number;
}

const isLinear = ({ shortMs, longMs }: Growth): boolean =>
  longMs < noiseMs + ratioMax * Math.max(shortMs, noiseMs / times);

describe('the time of a scan', () => {
  for (const [name, detect] of Object.entries(detectors)) {
    it(`grows with the length of the text and not with its square: ${name}`, () => {
      for (const piece of unkind) {
        // The same piece, then with something at the end that makes every attempt fail late.
        for (const end of isLong ? ['', 'x', '_', '@', '1'] : ['', '@']) {
          const short = textOf(piece, chars / times) + end;
          const long = textOf(piece, chars) + end;
          const found = growth(detect, short, long);
          expect(isLinear(found), `${JSON.stringify({ piece, end, ...found })}`).toBe(true);
        }
      }
    });
  }

  it('takes milliseconds for the worst request', () => {
    // The short form takes every fourth: each family of pieces is a run of neighbours.
    for (const piece of unkind.filter((_, i) => isLong || i % 4 === 0)) {
      const text = textOf(piece, limits.piiScanCharsMax - 'phone'.length);
      const tries = isLong ? 3 : 1;
      const times = Array.from({ length: tries }, () => cpuMsOf(() => scanPii({ phone: text }, piiTypes)));
      expect(Math.min(...times), JSON.stringify(piece)).toBeLessThan(250);
    }
  });

  it('is that of the digits where nothing says that they are phone numbers, however they are set apart', () => {
    const scanned = (text: string) => scanPii({ text }, ['phone']);
    // Here hardly anything is a candidate, there nearly every digit.
    const plain = textOf('1 ', chars);
    for (const piece of [
      ...['1--1--', '1---', '1 - ', '0)', '1()', '1( )', '0. 1', '1 1- ', '1--1--1--1--1--1--'],
    ]) {
      const text = textOf(piece, chars);
      const found = { plainMs: Number.POSITIVE_INFINITY, ms: Number.POSITIVE_INFINITY };
      for (let round = 0; round < 30 && (round < 3 || found.ms >= 8 * found.plainMs); round += 1) {
        found.plainMs = Math.min(
          found.plainMs,
          cpuMsOf(() => scanned(plain)),
        );
        found.ms = Math.min(
          found.ms,
          cpuMsOf(() => scanned(text)),
        );
      }
      expect(found.ms, JSON.stringify({ piece, ...found })).toBeLessThan(8 * found.plainMs);
    }
  });
});
