import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { passwordCost } from '../../control-plane/people/passwords.ts';
import { type Api, type LoggedIn, startApi } from '../support/api.ts';

/** Attacks on logins and sessions over real connections. */
let api: Api;
let origin: string;
let owner: LoggedIn;
beforeAll(async () => {
  api = await startApi({ passwordCost });
  owner = await api.createUser();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
});
afterAll(() => api.close());

const post = (path: string, headers: Readonly<Record<string, string>>, body: string): Promise<Response> =>
  fetch(`${origin}${path}`, { method: 'POST', headers, body });
/** As our own page sends it, from a browser that says nothing of the site. */
const ours = {
  'content-type': 'application/json',
  'x-agent-trust-console': '1',
  origin: 'http://127.0.0.1:8080',
};
const logIn = (body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  post('/v1/session', { ...ours, ...headers }, JSON.stringify(body));

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
    const reply = await post('/v1/issuers', headers, '{"name":"forged"}');
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

it('takes as long for an unknown address as for a wrong password', async () => {
  const took = async (email: string): Promise<number> => {
    const startedAt = performance.now();
    expect((await logIn({ email, password: 'not the password' })).status).toBe(401);
    return performance.now() - startedAt;
  };
  const known: number[] = [];
  const unknown: number[] = [];
  for (let n = 0; n < 9; n++) {
    known.push(await took(owner.email));
    unknown.push(await took(`nobody-${n}@example.com`));
  }
  const median = (times: readonly number[]) => times.toSorted((a, b) => a - b)[4] ?? 0;
  // Without the hash an unknown address would be answered more than ten times as fast.
  expect(median(unknown) / median(known)).toBeGreaterThan(0.5);
  expect(median(unknown) / median(known)).toBeLessThan(2);
});

describe('a flood of logins', () => {
  it('is bounded, and neither stops the service nor a browser that was there before', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const device = /__Host-agent_trust_device=[^;]+/.exec(String(person.headers['cookie']))?.[0] ?? '';
    // From one network, each for another address: ten times what may wait for its hash.
    const flood = Array.from({ length: 200 }, (_, n) =>
      logIn({ email: `flood-${n}@example.com`, password: 'a wrong password' }),
    );
    const startedAt = performance.now();
    const { email, password } = person;
    const [own, live] = await Promise.all([
      logIn({ email, password }, { cookie: device }),
      fetch(`${origin}/v1/gates`, { headers: { authorization: `Bearer ${api.adminKey}` } }),
    ]);
    expect([own.status, live.status]).toEqual([200, 200]);
    const tookMs = performance.now() - startedAt;
    const statuses = (await Promise.all(flood)).map(({ status }) => status);
    const floodMs = performance.now() - startedAt;
    // What found no room to wait is no try, so it uses up no limit of the network for good.
    expect(statuses).toContain(503);
    expect(statuses.filter((status) => ![401, 429, 503].includes(status))).toEqual([]);
    // Those that were hashed: one at a time and as many as may wait.
    expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(40);
    expect(tookMs).toBeLessThan(floodMs);
    // And after it.
    const reply = await fetch(`${origin}/v1/session`, {
      headers: { cookie: String(person.headers['cookie']) },
    });
    expect(reply.status).toBe(200);
  });
});
