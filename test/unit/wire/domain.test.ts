import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isReadAlike,
  parseCalledHost,
  parseDomainPattern,
  parseHost,
  parseUrlHost,
} from '../../../shared/wire/api/domain.ts';

describe('parseHost', () => {
  it('gives back what IDNA gives back, where it does not ask', () => {
    // One name in 40,000 would have a label such as `xn--bba`, which encodes something.
    const label = fc
      .stringMatching(/^[a-z0-9]([a-z0-9-]{0,70}[a-z0-9])?$/)
      .filter((text) => !text.startsWith('xn--'));
    const end = fc.oneof(label, fc.stringMatching(/^[a-z]{1,70}$/), fc.constantFrom('0x7f', '1', 'xn--a'));
    const names = fc.tuple(fc.array(label, { minLength: 1, maxLength: 5 }), end);
    fc.assert(
      fc.property(names, ([labels, last]) => {
        const name = [...labels, last].join('.');
        const ascii = domainToASCII(name);
        // Versions of Node differ about labels that encode nothing; the end `xn--a` is one.
        const fits =
          (ascii === name || !/^[\d.]+$/.test(ascii)) &&
          !/(?:^|\.)xn--/.test(name) &&
          ascii.length <= 253 &&
          /^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(ascii);
        expect(parseHost(name)).toBe(fits ? ascii : null);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['api.example.com', 'api.example.com'],
    ['API.Example.COM', 'api.example.com'],
    ['example.com.', 'example.com'],
    ['example.com:443', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['faß.example', 'xn--fa-hia.example'],
    ['ab--c.example', 'ab--c.example'],
    ['example。com', 'example.com'],
    ['my_service', 'my_service'],
    ['127.0.0.1', '127.0.0.1'],
    ['[::1]', '[::1]'],
    ['[::FFFF:127.0.0.1]', '[::ffff:7f00:1]'],
  ])('%s is %s', (text, host) => {
    expect(parseHost(text)).toBe(host);
  });

  it.each([
    ...['', '.', '..', '.example.com', 'a..b', ' example.com', 'exa\tmple.com', 'https://example.com'],
    ...['example.com/path', 'user@example.com', 'example.com:', 'example.com:123456'],
    ...['example.com\\@evil.example', 'ex%61mple.com', '*.example.com', 'exam*ple.com', '::1', '[::1'],
    ...['[::1%25eth0]', '1.2.3.4.5', '999.1.1.1'],
    // Spellings of an address that some readers know.
    ...['127.1', '0x7f.1', '127.0.0.01', '2130706433', '127.0.0.1.', '１２７.0.0.1', 'a.1', 'xn--a', 'xn--'],
    ...['xn--a.example', 'a.xn--zzzzzz.example', 'xn--a-', '\u00ad'],
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(126)}aa`,
    'a'.repeat(100_000),
  ])('refuses %j', (text) => {
    expect(parseHost(text)).toBeNull();
  });

  it('takes a name of 253 characters', () => {
    const host = `${'a.'.repeat(126)}a`;
    expect(host.length).toBe(253);
    expect(parseHost(host)).toBe(host);
    expect(parseHost(`${host}.`)).toBe(host);
  });
});

describe('parseDomainPattern', () => {
  it.each([
    ['api.example.com', 'api.example.com'],
    ['*.Example.com.', '*.example.com'],
    ['*.bücher.example', '*.xn--bcher-kva.example'],
    ['127.0.0.1', '127.0.0.1'],
  ])('%s is %s', (text, pattern) => {
    expect(parseDomainPattern(text)).toBe(pattern);
  });

  it.each(['*', '*.', '*.*.example.com', '*example.com', '*.0.0.1'])('refuses %j', (text) => {
    expect(parseDomainPattern(text)).toBeNull();
  });
});

describe('parseCalledHost', () => {
  it.each([
    ['api.example.com', 'api.example.com'],
    ['bücher.example:443', 'xn--bcher-kva.example'],
  ])('%s is %s', (text, host) => {
    expect(parseCalledHost(text)).toBe(host);
  });

  it.each(['faß.example', 'FAẞ.example', 'βόλος.example', 'ن\u200cن.example', 'क्\u200dष.example', '127.1'])(
    'refuses %j',
    (text) => {
      expect(parseCalledHost(text)).toBeNull();
    },
  );
});

describe('parseUrlHost', () => {
  it.each([
    ['https://api.example.com/orders', 'api.example.com'],
    ['HTTP://API.example.com.:8080', 'api.example.com'],
    ['https://xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['https://evil.example#@api.example.com/', 'evil.example'],
    ['https://evil.example/a@b:c/é', 'evil.example'],
    ['https://api.example.com:00443?', 'api.example.com'],
    ['https://[::1]:8443/', '[::1]'],
  ])('%s goes to %s', (text, host) => {
    expect(parseUrlHost(text)).toBe(host);
  });

  it.each([
    ...['', '/orders', 'api.example.com', 'file:///etc/passwd', 'https://', 'wss://example.com'],
    ...['https://api.example.com\\@evil.test/', 'https://api.example.com@evil.example/'],
    ...['https://user:password@api.example.com/', 'https:/api.example.com/', 'https:///api.example.com/'],
    ...[' https://api.example.com/', 'https://api.example.com/a b', 'https://api.ex\tample.com/'],
    ...['https://api.example.com/\r\nHost: evil.test', 'https://api.example.com/a\\b'],
    ...['https://api.example.com::80/', 'https://:80/', 'https://api.example.com:65536/'],
    ...['https://api%2eexample.com/', 'https://bücher.example/', 'https://127.1/', 'https://2130706433/'],
    ...['https://256.0.0.1/', 'https://1.2.3.4.5/', 'https://[::1/', 'https://[::1%25lo]/'],
    ...["https://exa'mple.com/", 'https://a..b/'],
  ])('refuses %j', (text) => {
    expect(parseUrlHost(text)).toBeNull();
  });
});

describe('isReadAlike', () => {
  it.each([
    ['https://app.example.com/cb', true],
    ['http://127.0.0.1:8000/cb', true],
    ['com.example.app:/cb', true],
    ['https://app.example.com\\@evil.example/cb', false],
    ['com.example.app:/c\nb', false],
    ['/cb', false],
    [7, false],
  ])('of %j is %s', (uri, isAlike) => {
    expect(isReadAlike(uri)).toBe(isAlike);
  });
});
