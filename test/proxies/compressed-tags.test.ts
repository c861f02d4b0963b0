import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startGuarded } from '../../control-plane/storage/guarded-process.ts';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { sharedService } from '../support/run/shared-services.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';

// A control plane behind nginx, which compresses: the tags of its answers turn weak on their way.

let api: Api;
let nginx: ReturnType<typeof startGuarded>;
let origin: string;
const folder = temporaryFolder();

beforeAll(async () => {
  api = await startOwnApi();
  const inside = await api.app.listen({ port: 0, host: '127.0.0.1' });
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((path) => `${path}_temp_path ${join(folder.path, path)};`)
    .join(' ');
  const file = join(folder.path, 'nginx.conf');
  writeFileSync(
    file,
    `events {} http { access_log off; ${temporary} gzip on; gzip_types *; gzip_min_length 0; gzip_proxied any;
      server { listen 127.0.0.1:${port}; location / { proxy_pass ${inside}; } } }`,
  );
  const main = `daemon off; pid ${join(folder.path, 'nginx.pid')}; user ${userInfo().username};`;
  nginx = startGuarded({
    command: await sharedService('nginx'),
    args: ['-p', folder.path, '-c', file, '-e', 'stderr', '-g', main],
    env: { PATH: '/usr/sbin:/usr/bin:/bin' },
    user: null,
  });
  origin = `http://127.0.0.1:${port}`;
  await until(() => fetch(`${origin}/livez`).then(Boolean, () => false), { what: 'nginx' });
});
afterAll(async () => {
  await nginx?.stop({ timeoutMs: 10_000 });
  await api?.close();
  folder.remove();
});

const call = (method: string, path: string, headers: object = {}, body?: object) =>
  fetch(`${origin}/v1${path}`, {
    method,
    headers: {
      ...{ authorization: `Bearer ${api.adminKey}`, 'accept-encoding': 'gzip' },
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? null : JSON.stringify(body),
  });

it.each([
  ['a gate', '/gates', { name: 'Orders', trust_level: 'L1' }, 'gate_id', 'PUT'],
  ['a wallet', '/wallets', { name: 'Team', limits: { daily_usd: 5 } }, 'wallet_id', 'PUT'],
] as const)(
  '%s is changed by whoever has read it as it is, and by nobody else',
  async (_what, list, body, id, method) => {
    const made = await call('POST', list, {}, body);
    expect(made.status).toBe(201);
    const path = `${list}/${((await made.json()) as Record<string, string>)[id]}`;
    const read = await call('GET', path);
    expect(read.headers.get('content-encoding')).toBe('gzip');
    const tag = read.headers.get('etag') ?? '';
    expect(tag).toMatch(/^W\/"/);
    const changed = await call(method, path, { 'if-match': tag }, { name: 'New' });
    expect(changed.status).toBe(200);
    expect((await call(method, path, { 'if-match': tag }, { name: 'Old' })).status).toBe(412);
    const newer = changed.headers.get('etag') ?? '';
    expect((await call('DELETE', path, { 'if-match': newer })).status).toBe(200);
  },
);
