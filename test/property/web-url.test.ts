import { parse } from 'node:url';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseUrlHost, parseWebUrl } from '../../shared/wire/api/domain.ts';
import { nastyUrls } from '../support/base/nasty-urls.ts';
import { runs } from '../support/base/runs.ts';

const withoutDot = (host: string | null) => host?.replace(/\.$/, '') ?? null;

/** RFC 3986 appendix B, and §3.2 for the authority. */
function hostOfRfc3986(text: string): string | null {
  const [, , , , authority = null] = /^(([^:/?#]+):)?(\/\/([^/?#]*))?/.exec(text) ?? [];
  return authority === null ? null : authority.replace(/^.*@/, '').replace(/:\d*$/, '').toLowerCase();
}

it('an accepted URL has one host for every reader', () => {
  let taken = 0;
  fc.assert(
    fc.property(nastyUrls, (text) => {
      const host = parseUrlHost(text);
      expect(parseWebUrl(text) === null).toBe(host === null);
      if (host === null) return;
      taken++;
      const { hostname, username, password } = new URL(text);
      expect(withoutDot(hostname)).toBe(host);
      expect(username + password).toBe('');
      const bare = host.replace(/^\[|\]$/g, '');
      expect(withoutDot(new URL(`http://${hostOfRfc3986(text)}/`).hostname)).toBe(host);
      // An older reader, which writes IPv6 without brackets and as it was given.
      const legacy = withoutDot(parse(text).hostname) ?? '';
      expect(new URL(`http://${legacy.includes(':') ? `[${legacy}]` : legacy}/`).hostname).toBe(
        bare.includes(':') ? host : bare,
      );
    }),
    { numRuns: runs({ short: 5_000, long: 500_000 }) },
  );
  expect(taken).toBeGreaterThan(200);
});
