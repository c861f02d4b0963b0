import type { AddressInfo } from 'node:net';
import { beforeAll, expect, it } from 'vitest';
import { passwordCost } from '../../control-plane/people/passwords.ts';
import { type LoggedIn, startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/** Attacks on logins and sessions over real connections. */
const api = useApi(() => startOwnApi({ passwordCost }));
let origin: string;
let owner: LoggedIn;
beforeAll(async () => {
  owner = await api.createUser();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
});

it('refuses a form of another site, whatever its content type', async () => {
  const cookie = String(owner.headers['cookie']);
  const before = (await api.call({ url: '/v1/issuers' })).body.total;
  for (const type of [
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'text/plain',
    'application/json',
  ]) {
    const headers = { cookie, origin: 'https://evil.example', 'content-type': type };
    const reply = await fetch(`${origin}/v1/issuers`, { method: 'POST', headers, body: '{"name":"forged"}' });
    expect(reply.status, type).toBe(403);
    expect(reply.headers.get('access-control-allow-origin')).toBeNull();
  }
  const preflight = await fetch(`${origin}/v1/issuers`, {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.example', 'access-control-request-headers': 'x-agent-trust-console' },
  });
  expect(preflight.status).toBe(404);
  expect((await api.call({ url: '/v1/issuers' })).body.total).toBe(before);
});

it('keeps passwords as costly as is recommended', async () => {
  // OWASP Password Storage Cheat Sheet: N = 2^14, r = 8, p = 5.
  const [kept] = await api.deps.sql`SELECT users::text AS text FROM users WHERE user_id = ${owner.userId}`;
  expect(kept?.['text']).toMatch(/scrypt\$14\$8\$5\$/);
});
