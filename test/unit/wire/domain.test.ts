import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDomainPattern, parseHost, parseUrlHost } from '../../../shared/wire/domain.ts';

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
    ['example.com.:443', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['faß.example', 'xn--fa-hia.example'],
    ['xn--ls8h.example', 'xn--ls8h.example'],
    ['ab--c.example', 'ab--c.example'],
    ['example。com', 'example.com'],
    ['example。com。', 'example.com'],
    ['ｅxample.com', 'example.com'],
    ['my_service', 'my_service'],
    ['localhost:8080', 'localhost'],
    ['127.0.0.1', '127.0.0.1'],
    // Other spellings of the same address, as the URL standard reads them.
    ['127.1', '127.0.0.1'],
    ['0x7f.1', '127.0.0.1'],
    ['[::1]', '[::1]'],
    ['[0:0:0:0:0:0:0:1]:8080', '[::1]'],
    ['[::FFFF:127.0.0.1]', '[::ffff:7f00:1]'],
  ])('%s is %s', (text, host) => {
    expect(parseHost(text)).toBe(host);
  });

  it.each([
    '',
    '.',
    '..',
    'example.com..',
    '.example.com',
    'a..b',
    ' example.com',
    'exa\tmple.com',
    'example.com\n',
    'example.com\0',
    'https://example.com',
    'example.com/path',
    'example.com?x',
    'example.com#x',
    'user@example.com',
    'example.com:',
    'example.com:http',
    'example.com:123456',
    'example.com\\@evil.example',
    'ex%61mple.com',
    '*.example.com',
    'exam*ple.com',
    '::1',
    '[::1',
    '[::g]',
    '[::1%25eth0]',
    '1.2.3.4.5',
    '999.1.1.1',
    'xn--a',
    'xn--',
    'xn--a.example',
    'a.xn--zzzzzz.example',
    'xn--a-',
    'xn--xn---epa',
    'bücher.xn--a',
    '\u00ad',
    'exa mple.com',
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
    ['*.com', '*.com'],
    ['127.0.0.1', '127.0.0.1'],
  ])('%s is %s', (text, pattern) => {
    expect(parseDomainPattern(text)).toBe(pattern);
  });

  it.each([
    '*',
    '*.',
    '**.example.com',
    '*.*.example.com',
    'api.*.com',
    '*example.com',
    '*.0.0.1',
    '*.[::1]',
  ])('refuses %j', (text) => {
    expect(parseDomainPattern(text)).toBeNull();
  });
});

describe('parseUrlHost', () => {
  it.each([
    ['https://api.example.com/orders', 'api.example.com'],
    ['HTTP://API.example.com.:8080', 'api.example.com'],
    ['wss://bücher.example', 'xn--bcher-kva.example'],
    ['https://api.example.com@evil.example/', 'evil.example'],
    ['https://evil.example\\@api.example.com/', 'evil.example'],
    ['https://evil.example#@api.example.com/', 'evil.example'],
    ['https://[::1]:8443/', '[::1]'],
  ])('%s goes to %s', (text, host) => {
    expect(parseUrlHost(text)).toBe(host);
  });

  it.each([
    '',
    '/orders',
    'api.example.com',
    'file:///etc/passwd',
    'mailto:a@example.com',
    'x://a/',
    'https://',
  ])('refuses %j', (text) => {
    expect(parseUrlHost(text)).toBeNull();
  });
});
