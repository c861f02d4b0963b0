import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../../shared/model/constraints.ts';
import { limits } from '../../../shared/model/limits.ts';
import { decodings } from '../../../shared/pii/decode-text.ts';
import { redactRequest } from '../../../shared/pii/redact-request.ts';
import { scanPii } from '../../../shared/pii/scan-pii.ts';
import { codePoint } from '../../support/base/arbitrary-text.ts';

const typesIn = (value: unknown): readonly string[] =>
  scanPii({ value }, piiTypes).findings.map(({ type }) => type);

const hidden: readonly (readonly [text: string, type: string, plain: string])[] = [
  ['/pay?card=4111+1111+1111+1111', 'payment_card', '4111'],
  ['card=%34%31%31%31%31%31%31%31%31%31%31%31%31%31%31%31', 'payment_card', '%34'],
  ['card=4111%252B1111%252B1111%252B1111', 'payment_card', '4111'],
  ['note=%ff+4111+1111+1111+1111', 'payment_card', '4111'],
  ['bad=%zz%4&card=4111+1111+1111+1111', 'payment_card', '4111'],
  ['iban=DE89%203704%200044%200532%200130%2000', 'iban', 'DE89'],
  ['mail=jane%2Edoe%40example%2Ecom', 'email', 'jane'],
  ['ssn=123%2D45%2D6789', 'us_ssn', '123'],
  ['/login?ip=2001%3Adb8%3A%3A1', 'ip_address', '2001'],
  ['tel=%2B49%2030%2023125001', 'phone', '23125001'],
  ['card=４１１１％２０1111％２０1111％２０1111', 'payment_card', '1111'],
];

describe('personal data in percent and form encoding', () => {
  it.each(hidden)('%s is found', (text, type) => {
    expect(typesIn(text)).toContain(type);
    expect(typesIn({ list: [text] })).toContain(type);
    // As the name of a member: the finding points at the object around it.
    const { findings } = scanPii({ inner: { [text]: 1 } }, piiTypes);
    expect(findings).toContainEqual({ pointer: '/inner', type });
    // And no pointer passes through it.
    const below = scanPii({ [text]: { mail: 'jane@example.com' } }, piiTypes).findings;
    expect(JSON.stringify(below)).not.toContain(text.slice(-6));
  });

  it.each(hidden)('%s leaves nothing of it in a redacted copy', (text, type, plain) => {
    const { request, redactions } = redactRequest({ note: text, other: 'fine' }, piiTypes);
    expect(redactions).toContainEqual({ pointer: '/note', type });
    expect(request['other']).toBe('fine');
    expect(String(request['note'])).not.toContain(plain);
    expect(scanPii(request, piiTypes).findings).toEqual([]);
  });

  it('keeps the rest of a string where the place is known', () => {
    const { request } = redactRequest({ url: '/x?mail=jane@example.com&size=5%20cm' }, piiTypes);
    expect(request['url']).toBe('/x?mail=[redacted:email]&size=5%20cm');
  });

  it.each([
    ...['50% of 4111 orders', '4111+1111+1111+1111', '/orders/7?full=1&sort=a%2Cb+c'],
    ...['https://shop.example/a%20b?c=%E2%82%AC+5', 'a=1+1'],
  ])('%s is none', (text) => {
    expect(typesIn(text)).toEqual([]);
  });

  it('counts each reading against the same bound', () => {
    const third = '%41'.repeat(Math.floor(limits.piiScanCharsMax / 5));
    expect(scanPii({ a: third }, piiTypes).isComplete).toBe(true);
    expect(scanPii({ a: third, b: 'x'.repeat(limits.piiScanCharsMax / 2) }, piiTypes).isComplete).toBe(false);
    expect(scanPii({ a: '%2541'.repeat(limits.piiScanCharsMax / 6) }, piiTypes).isComplete).toBe(false);
  });

  it.each([
    ['Base64', `${'QUJD+'.repeat(2_400)}==`],
    ['a mail with a link', `${'word '.repeat(2_400)}https://shop.example/a%20b?c=1+2 ${'word '.repeat(400)}`],
    ['numbers in per cent', '12 % more, 3%4 less '.repeat(600)],
  ])('%s of more than half of the bound is scanned to its end', (_what, text) => {
    expect(text.length).toBeGreaterThan(limits.piiScanCharsMax / 2);
    expect(scanPii({ text }, piiTypes)).toEqual({ findings: [], isComplete: true });
  });

  it('finds partly encoded data, in a long text, and near its name', () => {
    const long = 'word '.repeat(1_000);
    for (const [text, type] of [
      [`${long}4111 1111%201111 1111 ${long}`, 'payment_card'],
      [`${long}DE89 3704 0044%200532 0130 00 ${long}`, 'iban'],
      [`${long}ssn 123%2045%206789 ${long}`, 'us_ssn'],
      [`${long}see /pay?card=4111+1111+1111+1111 ${long}`, 'payment_card'],
      [`${long}/a%20b ${'word '.repeat(40)}jane%40example.com`, 'email'],
    ] as const) {
      expect(scanPii({ text }, piiTypes)).toEqual({
        findings: [{ pointer: '/text', type }],
        isComplete: true,
      });
      expect(scanPii(redactRequest({ text }, piiTypes).request, piiTypes).findings).toEqual([]);
    }
    // What lies far apart is not put together.
    expect(typesIn(`4111%20 ${long} 1111%20 ${long} 1111%20 1111`)).toEqual([]);
  });

  it('reports more levels of encoding as not scanned', () => {
    const encoded = (times: number) =>
      Array.from({ length: times }).reduce<string>((text) => encodeURIComponent(text), 'jane@example.com');
    for (const times of [1, 2, 3, 4, 5]) expect(typesIn(encoded(times)), `${times}`).toEqual(['email']);
    for (const times of [6, 7, 20]) {
      expect(scanPii({ value: encoded(times) }, piiTypes).isComplete, `${times}`).toBe(false);
      expect(scanPii({ [encoded(times)]: 1 }, piiTypes).isComplete, `${times}`).toBe(false);
    }
  });

  it('decodes as URLSearchParams does, and stops after five times', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: codePoint }).filter((text) => text.isWellFormed()),
        (text) => {
          const form = new URLSearchParams({ f: text }).toString();
          const [decoded = form] = decodings(form);
          expect(decoded).toBe(`f=${text}`);
        },
      ),
    );
    expect([...decodings('%25252525252541')]).toHaveLength(5);
    expect([...decodings('nothing + % %4 %zz')]).toEqual([]);
  });

  it('takes time that grows with the text', () => {
    const cpu = process.cpuUsage();
    for (const text of ['%', '%4', '%41', '%ff', '%25', '+=', '%f0%9f']) {
      for (const decoded of decodings(text.repeat(300_000))) expect(decoded.length).toBeLessThan(1_800_001);
    }
    expect(process.cpuUsage(cpu).user).toBeLessThan(5_000_000);
  });
});
