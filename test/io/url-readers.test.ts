import { execFile, spawn } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseUrlHost } from '../../shared/wire/api/domain.ts';
import { nastyUrls } from '../support/base/nasty-urls.ts';
import { runs } from '../support/base/runs.ts';
import { sharedService } from '../support/run/shared-services.ts';

const withoutDot = (host: string) => host.replace(/\.$/, '').toLowerCase();
const sameHost = (host: string | null): string | null =>
  host === null
    ? null
    : new URL(`http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}`).hostname;

const urls = [
  ...fc.sample(nastyUrls, runs({ short: 3_000, long: 30_000 })).filter((url) => parseUrlHost(url) !== null),
  'http://evil.test?@api.example.com/',
  'http://evil.test#@api.example.com/',
  'http://evil.test/@api.example.com/',
  'http://[::ffff:127.0.0.1]:80/',
  'http://API.example.com.:080/é',
  'http://api.example.com:/x',
  'http://api.example.com:?x',
  'http://api.example.com:',
  'http://[::1]:/',
];

it('takes all of these', () => {
  expect(urls.filter((url) => parseUrlHost(url) === null)).toEqual([]);
});

it('Python goes to the host that was checked', async () => {
  const script = `
import json, sys
from urllib.parse import urlsplit
from urllib.request import Request
print(json.dumps([[urlsplit(u).hostname, Request(u).host.rsplit(':', 1)[0] if not Request(u).host.endswith(']') else Request(u).host] for u in json.load(sys.stdin)]))
`;
  const python = spawn(await sharedService('python3'), ['-c', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  python.stdin.end(JSON.stringify(urls));
  const hosts: [string | null, string][] = JSON.parse(await text(python.stdout));
  expect(hosts).toHaveLength(urls.length);
  urls.forEach((url, index) => {
    for (const host of hosts[index] ?? []) {
      expect(withoutDot(sameHost(host) ?? ''), JSON.stringify(url)).toBe(parseUrlHost(url));
    }
  });
});

it('curl goes to the host that was checked', async () => {
  const seen = new Map<string, string>();
  const server = createServer((request, response) => {
    seen.set(String(request.headers['x-case']), request.headers.host ?? '');
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const asked = urls.filter((url) => /^http:/i.test(url)).slice(0, 400);
  const config = asked
    .map((url, index) =>
      [
        `url = "${url.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`,
        `header = "x-case: ${index}"`,
        `connect-to = "::127.0.0.1:${port}"`,
        'globoff\nsilent\noutput = "/dev/null"\nmax-time = 20',
      ].join('\n'),
    )
    .join('\nnext\n');
  const curl = promisify(execFile)(await sharedService('curl'), ['-q', '-K', '-'], { timeout: 120_000 });
  curl.child.stdin?.end(config);
  // It ends with the code of the last transfer.
  await curl.catch(() => undefined);
  server.closeAllConnections();
  server.close();
  expect(seen.size).toBeGreaterThan(asked.length * 0.9);
  for (const [index, host] of seen) {
    const url = asked[Number(index)] ?? '';
    const name = host.replace(/:\d+$/, '');
    expect(withoutDot(sameHost(name) ?? ''), JSON.stringify(url)).toBe(parseUrlHost(url));
  }
});
