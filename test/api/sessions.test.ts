import { beforeAll, describe, expect, it } from 'vitest';
import { hourMs, minuteMs } from '../../shared/model/time.ts';
import { scopesOfRole } from '../../shared/model/user.ts';
import { until } from '../support/base/until.ts';
import { cookiesOf, fromConsole, type LoggedIn, type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { logInAgain } from '../support/service/good-calls.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let owner: LoggedIn;
beforeAll(async () => {
  owner = await api.createUser();
});

const logIn = (body: object, headers: Readonly<Record<string, string>> = {}): Promise<Reply> =>
  api.call({ url: '/v1/session', key: null, headers: { ...fromConsole, ...headers }, body });
const as = (
  person: Pick<LoggedIn, 'headers'>,
  method: string,
  url: string,
  {
    body,
    headers = {},
  }: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Reply> => api.call({ method, url, key: null, headers: { ...person.headers, ...headers }, body });

describe('a login', () => {
  it('sets a cookie that scripts and other sites cannot read, and answers the user', async () => {
    const { email, password, userId } = owner;
    const reply = await logIn({ email: email.toUpperCase(), password });
    expect(reply.status).toBe(200);
    expect(reply.headers['set-cookie']).toEqual([
      expect.stringMatching(
        /^__Host-agent_trust_session=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
      ),
      expect.stringMatching(
        /^__Host-agent_trust_device=v1\.[\w.-]+; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=\d+$/,
      ),
    ]);
    expect(reply.headers['cache-control']).toBe('no-store');
    expect(reply.body).toMatchObject({
      session_id: expect.stringMatching(/^sess_/),
      user: { user_id: userId, role: 'owner' },
      account: { is_operator: true, name: 'Operator' },
      scopes: scopesOfRole.owner,
      mode: 'live',
    });
    const { created_at, expires_at, idle_expires_at } = reply.body;
    expect(Date.parse(expires_at) - Date.parse(created_at)).toBe(12 * hourMs);
    expect(Date.parse(idle_expires_at) - Date.parse(created_at)).toBe(30 * minuteMs);
    const own = await as({ headers: { cookie: cookiesOf(reply) } }, 'GET', '/v1/session');
    expect(own.body.session_id).toBe(reply.body.session_id);
  });

  it('answers login_failed for every fault', async () => {
    const { email, password } = owner;
    const disabled = await api.createUser({ role: 'auditor' });
    await api.call({ method: 'PATCH', url: `/v1/users/${disabled.userId}`, body: { status: 'disabled' } });
    await api.call({ url: '/v1/users', body: { email: 'not-yet@example.com', role: 'auditor' } });
    const wrong = [
      { email, password: `${password}x` },
      { email: 'nobody@example.com', password },
      { email: 'not-yet@example.com', password },
      { email: disabled.email, password: disabled.password },
      { email, password, account_id: 'acct_00000000000000000000000000' },
    ];
    const replies = await Promise.all(wrong.map((body) => logIn(body)));
    for (const reply of replies) {
      expectError(reply, 'login_failed');
      expect({ ...reply.body.error, request_id: '' }).toEqual({ ...replies[0]?.body.error, request_id: '' });
      expect(reply.headers['set-cookie']).toBeUndefined();
    }
  });

  it('begins a session of its own, whatever cookie was there before', async () => {
    const planted = `__Host-agent_trust_session=${'A'.repeat(43)}`;
    const reply = await logIn({ email: owner.email, password: owner.password }, { cookie: planted });
    expect(cookiesOf(reply)).not.toContain('A'.repeat(43));
    expectError(await as({ headers: { cookie: planted } }, 'GET', '/v1/session'), 'unauthorized');
    // A session of somebody else that was put into this browser ends with the login.
    const other = await api.createUser({ role: 'auditor' });
    await logIn(
      { email: owner.email, password: owner.password },
      { cookie: String(other.headers['cookie']) },
    );
    expectError(await as(other, 'GET', '/v1/session'), 'unauthorized');
  });
});

describe('the limits of logins', () => {
  const device = (person: Pick<LoggedIn, 'headers'>) =>
    /__Host-agent_trust_device=[^;]+/.exec(String(person.headers['cookie']))?.[0] ?? '';

  it('stop a flood against one address, and let its owner in from a browser that was there before', async () => {
    const { email, password, headers } = await api.createUser({ role: 'auditor' });
    const flood = await Promise.all(
      Array.from({ length: 100 }, () => logIn({ email, password: 'a wrong password' })),
    );
    const of = (code: string) => flood.filter(({ body }) => body.error.code === code);
    expect(of('login_failed').length).toBeLessThanOrEqual(10);
    const limited = of('rate_limited');
    expect(limited.length).toBeGreaterThanOrEqual(80);
    for (const { headers: sent } of limited) {
      expect(Number(sent['retry-after'])).toBeGreaterThan(0);
      expect(Number(sent['retry-after'])).toBeLessThanOrEqual(900);
    }
    expectError(await logIn({ email, password }), 'rate_limited');
    expect((await logIn({ email, password }, { cookie: device({ headers }) })).status).toBe(200);
    // The cookie of one person is no way around the limit of another.
    expectError(await logIn({ email, password }, { cookie: device(owner) }), 'rate_limited');
  });
});

describe('a session', () => {
  it('opens what its role allows, in the mode that it names, and nothing else', async () => {
    const auditor = await api.createUser({ role: 'auditor' });
    expect((await as(auditor, 'GET', '/v1/gates')).status).toBe(200);
    expectError(await as(auditor, 'POST', '/v1/gates', { body: { name: 'x' } }), 'insufficient_scope');
    const test = { 'x-agent-trust-mode': 'test' };
    const made = await as(owner, 'POST', '/v1/gates', {
      body: { name: 'of the test world', trust_level: 'L1' },
      headers: test,
    });
    expect(made.status).toBe(201);
    const url = `/v1/gates/${made.body.gate_id}`;
    expectError(await as(owner, 'GET', url), 'gate_not_found');
    expect((await as(owner, 'GET', url, { headers: test })).status).toBe(200);
    expect(made.body.last_changed_by).toEqual({ type: 'user', id: owner.userId, client_id: null });
    expectError(
      await as(owner, 'GET', '/v1/gates', { headers: { 'x-agent-trust-mode': 'both' } }),
      'invalid_request',
      'X-Agent-Trust-Mode',
    );
  });

  it('issues passports without a person present too', async () => {
    const body = { agent_type: 'custom', permissions: ['orders:create'] };
    expect((await as(owner, 'POST', '/api/passports', { body })).status).toBe(201);
  });

  it('never opens what sidecars and tools call', async () => {
    for (const [method, url] of [
      ['POST', '/v1/sync/connect'],
      ['GET', '/v1/sync/snapshot'],
      ['POST', '/v1/sync/attestations'],
      ['POST', '/mcp'],
    ] as const) {
      expect((await as(owner, method, url, method === 'POST' ? { body: {} } : {})).status, url).toBe(401);
    }
  });

  it('counts for nothing beside a key, valid or not', async () => {
    const auditor = await api.createUser({ role: 'auditor' });
    const { headers } = owner;
    const { key } = await api.createKey({ scopes: ['gates:read'] });
    const both = (asked: string, credential: string) => api.call({ url: asked, key: credential, headers });
    expectError(await both('/v1/audit', key), 'insufficient_scope');
    expectError(await both('/v1/gates', `${key}x`), 'unauthorized');
    expectError(await api.call({ url: '/v1/session', key }), 'unauthorized');
    expect((await as(auditor, 'GET', '/v1/audit')).status).toBe(200);
  });

  it('ends when idle, and at the latest after its time', async () => {
    const at = await startOwnApi();
    try {
      const person = await at.createUser();
      const get = () => at.call({ url: '/v1/session', key: null, headers: person.headers });
      at.advance(29 * minuteMs);
      const seen = await get();
      expect(seen.status).toBe(200);
      // Written beside the answer.
      const isWritten = async () =>
        (await at.deps.sql`SELECT FROM sessions WHERE last_seen_at_ms > created_at_ms`).count === 1;
      await until(isWritten, { what: 'when it was seen' });
      at.advance(29 * minuteMs);
      expect((await get()).status).toBe(200);
      at.advance(31 * minuteMs);
      expectError(await get(), 'unauthorized');

      const busy = await at.createUser();
      for (let minutes = 0; minutes < 12 * 60; minutes += 28) {
        const reply = await at.call({ url: '/v1/session', key: null, headers: busy.headers });
        expect(reply.status, `${minutes}`).toBe(200);
        const before = Date.parse(reply.body.idle_expires_at) - 31 * minuteMs;
        const isSeen = async () =>
          (
            await at.deps
              .sql`SELECT FROM sessions WHERE last_seen_at_ms >= ${before}::bigint AND session_id = ${busy.sessionId}`
          ).count === 1;
        await until(isSeen, { what: `the look at ${minutes} minutes` });
        at.advance(28 * minuteMs);
      }
      expectError(await at.call({ url: '/v1/session', key: null, headers: busy.headers }), 'unauthorized');
    } finally {
      await at.close();
    }
  });

  it('is over once it was ended, and its cookie is taken away', async () => {
    const second = await logInAgain(api, owner);
    const ended = await as(second, 'DELETE', '/v1/session');
    expect(ended.status).toBe(204);
    expect(ended.body).toBe('');
    expect(ended.headers['set-cookie']).toMatch(/^__Host-agent_trust_session=; .*Max-Age=0$/);
    expectError(await as(second, 'GET', '/v1/session'), 'unauthorized');
    expectError(await as(second, 'DELETE', '/v1/session'), 'unauthorized');
    expect((await as(owner, 'GET', '/v1/session')).status).toBe(200);
  });

  it('is listed to its user, and ended by them or by an administrator', async () => {
    const { key } = await api.createAccount();
    const [boss, admin, reader] = [
      await api.createUser({}, key),
      await api.createUser({ role: 'admin' }, key),
      await api.createUser({ role: 'read_only' }, key),
    ];
    const second = await logInAgain(api, reader);
    const list = async (by: Pick<LoggedIn, 'headers'>, of?: LoggedIn) =>
      as(by, 'GET', `/v1/sessions${of === undefined ? '' : `?user_id=${of.userId}`}`);
    const own = await list(second);
    expect(own.body.items).toMatchObject([
      {
        session_id: second.sessionId,
        is_current: true,
        user_id: reader.userId,
        user_agent: 'lightMyRequest',
      },
      { session_id: reader.sessionId, is_current: false },
    ]);
    expect((await list(admin, reader)).body.items).toHaveLength(2);
    expectError(await list(reader, admin), 'insufficient_scope', 'user_id');
    expectError(await list(admin, boss), 'insufficient_scope', 'role');
    expectError(await list(boss, owner), 'user_not_found');
    const end = (by: Pick<LoggedIn, 'headers'>, id: string) => as(by, 'DELETE', `/v1/sessions/${id}`);
    expectError(await end(reader, admin.sessionId), 'session_not_found');
    expectError(await end(admin, boss.sessionId), 'insufficient_scope', 'role');
    expectError(await end(boss, owner.sessionId), 'session_not_found');
    expect((await end(second, reader.sessionId)).status).toBe(204);
    expectError(await as(reader, 'GET', '/v1/session'), 'unauthorized');
    expect((await end(admin, second.sessionId)).status).toBe(204);
    expectError(await as(second, 'GET', '/v1/session'), 'unauthorized');
  });

  it('is one of at most twenty of its person', async () => {
    const person = await api.createUser({ role: 'read_only' });
    let newest: Pick<LoggedIn, 'headers'> = person;
    for (let logins = 0; logins < 20; logins++) {
      api.advance(1);
      newest = await logInAgain(api, person);
    }
    expect((await as(newest, 'GET', '/v1/sessions')).body.items).toHaveLength(20);
    expectError(await as(person, 'GET', '/v1/session'), 'unauthorized');
  });

  it('leaves what its person does in the audit, and never its cookie', async () => {
    const issued = await as(owner, 'POST', '/v1/issuers', { body: { name: 'By a person' } });
    const { body } = await api.call({ url: `/v1/audit?target=${issued.body.issuer_id}` });
    expect(body.entries[0].actor).toEqual({ type: 'user', id: owner.userId, client_id: null });
    const rows = await api.deps.sql`SELECT row_to_json(s)::text AS text FROM sessions s`;
    const token = /__Host-agent_trust_session=([^;]+)/.exec(String(owner.headers['cookie']))?.[1] ?? '';
    expect(token).toHaveLength(43);
    for (const row of rows) expect(row['text']).not.toContain(token);
  });

  it('has its own idempotency keys in each mode', async () => {
    const make = (mode: string) =>
      as(owner, 'POST', '/v1/issuers', {
        body: { name: 'Once' },
        headers: { 'idempotency-key': 'the-same', 'x-agent-trust-mode': mode },
      });
    const [live, again, test] = [await make('live'), await make('live'), await make('test')];
    expect(again.body.issuer_id).toBe(live.body.issuer_id);
    expect(test.body.issuer_id).not.toBe(live.body.issuer_id);
  });
});

describe('a change from another site', () => {
  const { 'x-agent-trust-console': own, 'sec-fetch-site': sameOrigin } = fromConsole;
  const ours = new URL('http://127.0.0.1:8080').origin;
  const refused: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ['a form', { 'sec-fetch-site': 'cross-site', 'content-type': 'application/x-www-form-urlencoded' }],
    ['a form of a browser that says nothing', {}],
    ['without the header', { 'sec-fetch-site': sameOrigin, origin: ours }],
    ['with another value of the header', { 'x-agent-trust-console': 'yes', 'sec-fetch-site': sameOrigin }],
    ['of a subdomain or another port', { 'x-agent-trust-console': own, 'sec-fetch-site': 'same-site' }],
    ['of another site', { 'x-agent-trust-console': own, 'sec-fetch-site': 'cross-site', origin: ours }],
    ['typed into the address bar', { 'x-agent-trust-console': own, 'sec-fetch-site': 'none' }],
    ['of another origin', { 'x-agent-trust-console': own, origin: 'http://127.0.0.1:9999' }],
    ['of no origin', { 'x-agent-trust-console': own, origin: 'null' }],
    ['without any origin', { 'x-agent-trust-console': own }],
  ];

  it.each(refused)('is refused: %s', async (_how, headers) => {
    const cookie = String(owner.headers['cookie']);
    const call = { key: null, headers: { cookie, ...headers }, body: { name: 'forged' } };
    expectError(await api.call({ url: '/v1/issuers', ...call }), 'cross_site_request');
    expectError(await api.call({ ...call, method: 'DELETE', url: '/v1/session' }), 'cross_site_request');
    const { email, password } = owner;
    const login = { ...call, url: '/v1/session', body: { email, password } };
    expectError(await api.call(login), 'cross_site_request');
  });

  it('is ours by Origin where the browser is too old for Sec-Fetch-Site', async () => {
    const headers = { cookie: String(owner.headers['cookie']), 'x-agent-trust-console': own, origin: ours };
    const reply = await api.call({ url: '/v1/issuers', key: null, headers, body: { name: 'ours' } });
    expect(reply.status).toBe(201);
  });

  it('takes no cookie that came twice', async () => {
    const cookie = `${owner.headers['cookie']}; __Host-agent_trust_session=planted`;
    expectError(await api.call({ url: '/v1/session', key: null, headers: { cookie } }), 'unauthorized');
  });
});
