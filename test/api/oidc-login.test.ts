import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { identityProvider, ProviderAway } from '../../control-plane/oidc/identity-provider.ts';
import { guardedFetch } from '../../control-plane/outbox/guarded-fetch.ts';
import { type MonotonicMillis, minuteMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { type Lie, startHostileProvider } from '../support/peers/hostile-provider.ts';
import { logInAtProvider, type ProviderPerson, startTestProvider } from '../support/peers/test-provider.ts';
import {
  type Api,
  cookiesOf,
  fromConsole,
  type LoggedIn,
  type Reply,
  startApi,
  startOwnApi,
} from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const outbound = guardedFetch({ allowPrivate: true });
afterAll(() => outbound.close());
const provider = useStarted(startTestProvider);
const api = useApi(() => startOwnApi({ provider: provider.settings }));

const post = (at: Api, url: string, body: object, cookie?: string): Promise<Reply> =>
  at.call({ url, key: null, headers: { ...fromConsole, ...(cookie === undefined ? {} : { cookie }) }, body });
const begin = (body: object = {}, at = api): Promise<Reply> => post(at, '/v1/session/oidc/begin', body);
const finish = (body: object, cookie?: string, at = api): Promise<Reply> =>
  post(at, '/v1/session/oidc', body, cookie);

/** A login up to the return from the provider. */
async function returned(person: ProviderPerson, body: object = {}) {
  const begun = await begin(body);
  return { cookie: cookiesOf(begun), back: await logInAtProvider(begun.body.authorization_url, person) };
}
async function logIn(person: ProviderPerson, body: object = {}): Promise<Reply> {
  const { back, cookie } = await returned(person, body);
  return finish(back, cookie);
}
let people = 0;
const personOf = ({ email }: Pick<LoggedIn, 'email'>): Required<ProviderPerson> => {
  people += 1;
  return { sub: `subject-${people}`, email, email_verified: true };
};

describe('a login with the identity provider', () => {
  it('sends the browser there with PKCE, state and nonce, bound to it by a cookie', async () => {
    const reply = await begin({ return_to: '/console/audit?operation=createGate' });
    expect(reply.status).toBe(200);
    expect(reply.headers['set-cookie']).toMatch(
      /^__Host-agent_trust_oidc=v1\.[\w.-]+; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=600$/,
    );
    const url = new URL(reply.body.authorization_url);
    expect(url.origin).toBe(provider.settings.issuer);
    expect(Object.fromEntries(url.searchParams)).toEqual({
      ...{ client_id: 'agent-trust', response_type: 'code' },
      ...{ redirect_uri: 'http://127.0.0.1:8080/console/log-in/oidc', scope: 'openid email' },
      ...{ state: expect.stringMatching(/^[\w-]{43}$/), nonce: expect.stringMatching(/^[\w-]{43}$/) },
      ...{ code_challenge: expect.stringMatching(/^[\w-]{43}$/), code_challenge_method: 'S256' },
    });
    const again = new URL((await begin()).body.authorization_url);
    for (const name of ['state', 'nonce', 'code_challenge'])
      expect(again.searchParams.get(name)).not.toBe(url.searchParams.get(name));
  });

  it('lets in the user with the verified address, with a session of its own', async () => {
    const user = await api.createUser({ role: 'auditor' });
    // It asks for no code of ours.
    await api.deps.sql`
      UPDATE users SET totp_sealed = 'sealed', totp_confirmed_at_ms = 1 WHERE user_id = ${user.userId}`;
    const { back, cookie } = await returned(personOf(user), { return_to: '/console/audit?a=1#b' });
    const reply = await finish(back, `${cookie}; ${user.headers['cookie']?.split(';')[0]}`);
    expect(reply.status).toBe(200);
    expect(reply.body.return_to).toBe('/console/audit?a=1#b');
    expect(reply.body.session).toMatchObject({ user: { user_id: user.userId, role: 'auditor' } });
    expect(reply.body.session.session_id).not.toBe(user.sessionId);
    const [own = '', , taken = ''] = [reply.headers['set-cookie']].flat().map(String);
    expect(own).toMatch(/^__Host-agent_trust_session=[\w-]{43}; .*SameSite=Strict$/);
    expect(taken).toMatch(/^__Host-agent_trust_oidc=; .*Max-Age=0$/);
    const session = (headers: Readonly<Record<string, string>>) =>
      api.call({ url: '/v1/session', key: null, headers });
    expect((await session({ cookie: own.split(';')[0] ?? '' })).status).toBe(200);
    // The session that the browser held before has ended.
    expectError(await session(user.headers), 'unauthorized');
  });

  it('finds the user by the linked identity from then on, even after a change of address', async () => {
    const user = await api.createUser({ role: 'auditor' });
    const other = await api.createUser({ role: 'auditor' });
    const person = personOf(user);
    expect((await logIn(person)).status).toBe(200);
    for (const changed of [{ email: other.email }, { email: 'new@example.com', email_verified: false }]) {
      const reply = await logIn({ ...person, ...changed });
      expect(reply.body.session.user.user_id).toBe(user.userId);
    }
    // Somebody who got the address afterwards is another person.
    const heir = await logIn({ ...personOf(user) });
    expectError(heir, 'login_failed');
    expect(heir.body.error.message).toContain('is linked to another login of Example Login');
    // The operator has changed the provider.
    await api.deps.sql`
      UPDATE oidc_identities SET issuer = 'https://before.example' WHERE user_id = ${user.userId}`;
    expect((await logIn(personOf(user))).status).toBe(200);
  });

  it('takes none of several users by its age: the person names the account', async () => {
    const [one, two] = [await api.createAccount({ name: 'One' }), await api.createAccount({ name: 'Two' })];
    const email = 'of-two-accounts@example.com';
    const inOne = await api.createUser({ email }, one.key);
    await api.createUser({ email }, two.key);
    const person = personOf(inOne);
    const nameOf = async (body: object) => (await logIn(person, body)).body.session.account.name;
    const refusesToGuess = async () => {
      const reply = await logIn(person);
      expectError(reply, 'invalid_request', 'account_id');
      const { message } = reply.body.error;
      expect(message).toContain(`One (${one.accountId}), Two (${two.accountId})`);
      expect(reply.headers['set-cookie']).toBeUndefined();
    };
    await refusesToGuess();
    expect(await nameOf({ account_id: two.accountId })).toBe('Two');
    // The identity is of the user in Two from now on, and of nobody else.
    expect(await nameOf({})).toBe('Two');
    expect(await nameOf({ account_id: one.accountId })).toBe('One');
    await refusesToGuess();
    expectError(await logIn(person, { account_id: 'acct_of_nobody' }), 'login_failed');
  });

  it('is in the audit, with the person, the issuer and the linked identity', async () => {
    const user = await api.createUser({ role: 'auditor' });
    const person = personOf(user);
    const { body } = await logIn(person);
    await logIn(person);
    const entries = (await api.call({ url: `/v1/audit?actor=${user.userId}&operation=logInWithOidc` })).body
      .entries;
    expect(entries).toHaveLength(2);
    const [second, first] = entries;
    const { issuer } = provider.settings;
    expect(first).toMatchObject({
      target: body.session.session_id,
      actor: { type: 'user', id: user.userId },
    });
    expect(first.after).toMatchObject({ issuer, linked_subject: person.sub });
    expect(second.after).toMatchObject({ issuer });
    expect(second.after).not.toHaveProperty('linked_subject');
  });
});

describe('a login with the identity provider is refused', () => {
  it.each([
    ['who is no user', { sub: 'a', email: 'nobody@example.com', email_verified: true }, 'No active user'],
    ['without an address', { sub: 'b' }, 'has verified your email address'],
    [
      'with an invisible letter in the address',
      { sub: 'e', email: 'kirk\u200b@example.com', email_verified: true },
      'cannot be used here',
    ],
  ])('to somebody %s', async (_who, person, message) => {
    const reply = await logIn(person);
    expectError(reply, 'login_failed');
    expect(reply.body.error.message).toContain(message);
    expect(reply.headers['set-cookie']).toBeUndefined();
  });

  it('to an unverified address, a disabled user and one whose invitation has ended', async () => {
    const user = await api.createUser({ role: 'auditor' });
    expectError(await logIn({ ...personOf(user), email_verified: false }), 'login_failed');
    const linked = personOf(user);
    expect((await logIn(linked)).status).toBe(200);
    await api.call({ method: 'PATCH', url: `/v1/users/${user.userId}`, body: { status: 'disabled' } });
    expectError(await logIn(linked), 'login_failed');
    expectError(await logIn(personOf(user)), 'login_failed');
    const email = 'invited-only@example.com';
    const { body } = await api.call({ url: '/v1/users', body: { email, role: 'auditor' } });
    await api.deps.sql`UPDATE invitations SET expires_at_ms = 1 WHERE user_id = ${body.user.user_id}`;
    expectError(await logIn(personOf({ email })), 'login_failed');
  });

  it('in another browser, and with the state of another login', async () => {
    const person = personOf(await api.createUser({ role: 'auditor' }));
    const mine = await returned(person);
    const attackers = await returned(personOf(await api.createUser({ role: 'auditor' })));
    expectError(await finish(mine.back), 'login_failed');
    // The code of somebody else, planted into a browser that has begun a login (login CSRF).
    expectError(await finish(attackers.back, mine.cookie), 'login_failed');
    expectError(await finish({ ...attackers.back, state: mine.back['state'] }, mine.cookie), 'login_failed');
    expectError(await finish({ ...mine.back, iss: 'https://evil.example' }, mine.cookie), 'login_failed');
    expect((await finish(mine.back, mine.cookie)).status).toBe(200);
  });

  it('the second time, also of two at once', async () => {
    const { back, cookie } = await returned(personOf(await api.createUser({ role: 'auditor' })));
    const both = await Promise.all([finish(back, cookie), finish(back, cookie)]);
    // A provider may take back what it gave where a code comes twice (RFC 6749 §4.1.2): then both fail.
    const failed = both.filter(({ status }) => status !== 200);
    expect(failed.length).toBeGreaterThanOrEqual(1);
    for (const reply of failed) expectError(reply, 'login_failed');
    expectError(await finish(back, cookie), 'login_failed');
  });

  it('after its time, and too often', async () => {
    const at = await startOwnApi({ provider: provider.settings });
    const begun = await begin({}, at);
    const { searchParams } = new URL(begun.body.authorization_url);
    const back = { code: 'guessed', state: searchParams.get('state') };
    at.stopClock();
    at.advance(10 * minuteMs);
    const late = await finish(back, cookiesOf(begun), at);
    expectError(late, 'login_failed');
    expect(late.body.error.message).toContain('too long ago');
    for (let tries = 1; tries < 100; tries++) expectError(await finish(back, undefined, at), 'login_failed');
    const limited = await finish(back, undefined, at);
    expectError(limited, 'rate_limited');
    expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
    await at.close();
  });

  it.each([
    ...['https://evil.example/console/', '/\\evil.example/console/', '/console/..//evil.example'],
    ...['/consoles', '/\t/evil.example/console/', 'javascript:alert(1)', ''],
    `/console/${'é'.repeat(400)}`,
  ])('where it would return to %j', async (return_to) => {
    expectError(await begin({ return_to }), 'invalid_request', 'return_to');
  });
});

const tokenAnswer = (status: number, body: string): Lie => ({ tokenAnswer: { status, body } });

describe('a provider that lies', () => {
  const hostile = useStarted(startHostileProvider);
  const at = useApi(() => startOwnApi({ provider: hostile.settings }));
  let user: LoggedIn;
  beforeAll(async () => {
    user = await at.createUser();
  });

  async function loginAgainst(lie: Lie): Promise<Reply> {
    const begun = await begin({}, at);
    const url = new URL(begun.body.authorization_url);
    const { email } = user;
    const claims = { email, email_verified: true, ...lie.claims };
    hostile.lie(url.searchParams.get('nonce') ?? '', { ...lie, claims });
    const state = url.searchParams.get('state') ?? '';
    return finish({ code: 'code', state }, cookiesOf(begun), at);
  }
  const seconds = () => Math.floor(Date.now() / 1_000);

  it('is believed where it does not', async () => {
    expect((await loginAgainst({})).status).toBe(200);
  });

  it.each<readonly [string, () => Lie]>([
    [
      'two audiences, and us as the party',
      () => ({ claims: { aud: ['agent-trust', 'x'], azp: 'agent-trust' } }),
    ],
    ['a clock that is ahead', () => ({ claims: { iat: seconds() + 20, auth_time: seconds() + 20 } })],
    ['email_verified as text', () => ({ claims: { email_verified: 'true' } })],
    ['email_verified in UserInfo alone', () => userInfo({ email: user.email, email_verified: true })],
    [
      'the address in UserInfo alone',
      () => userInfo({ email: user.email, email_verified: 'true' }, { email: undefined }),
    ],
  ])('is believed with %s', async (_what, lie) => {
    await unlink();
    expect((await loginAgainst(lie())).status).toBe(200);
  });

  it.each<readonly [string, () => Lie]>([
    ['UserInfo verifies another', () => userInfo({ email: 'other@example.com', email_verified: true })],
    ['UserInfo verifies no address', () => userInfo({ email_verified: true })],
    ['UserInfo is of somebody else', () => userInfo({ sub: 'x', email: user.email, email_verified: true })],
    [
      'the ID token says no and UserInfo yes',
      () => userInfo({ email: user.email, email_verified: true }, { email_verified: false }),
    ],
    ['email_verified is the text false', () => ({ claims: { email_verified: 'false' } })],
    ['the address is a list', () => ({ claims: { email: [user.email] } })],
  ])('links nobody where %s', async (_what, lie) => {
    await unlink();
    expectError(await loginAgainst(lie()), 'login_failed');
  });
  const userInfo = (info: object, claims: object = {}): Lie => ({
    claims: { email_verified: undefined, ...claims },
    userInfo: { sub: 'hostile-subject', ...info },
  });
  const unlink = () => at.deps.sql`DELETE FROM oidc_identities`;

  it('logs in no user by an invalid subject', async () => {
    await unlink();
    const other = await at.createUser();
    for (const sub of [...['', ' ', 'x'.repeat(256), 'käthe', 'a\u0000b', 'a\n'], ...[0, null, ['a']]])
      for (const { email } of [user, other].slice(sub === '' ? 0 : 1))
        expectError(await loginAgainst({ claims: { sub, email } }), 'login_failed');
    expect(await at.deps.sql`SELECT FROM oidc_identities`).toHaveLength(0);
    expect((await loginAgainst({ claims: { sub: 'x'.repeat(255) } })).status).toBe(200);
  });

  it.each<readonly [string, () => Lie]>([
    ['about its issuer', () => ({ claims: { iss: 'https://other.example' } })],
    ['about the audience', () => ({ claims: { aud: 'another-client' } })],
    ['about the party alone', () => ({ claims: { azp: 'x' } })],
    ['with a token issued in the future', () => ({ claims: { iat: seconds() + 60, exp: seconds() + 600 } })],
    ['with no time of issue', () => ({ claims: { iat: undefined } })],
    ['with somebody who will log in later', () => ({ claims: { auth_time: seconds() + 3_600 } })],
    ['with the nonce of another login', () => ({ claims: { nonce: 'another' } })],
    ['without a nonce', () => ({ claims: { nonce: undefined } })],
    ['with a token that has expired', () => ({ claims: { exp: seconds() - 60 } })],
    ['with a signature of another key', () => ({ signedBy: 'stranger' })],
    ['with no signature', () => ({ signedBy: 'nobody' })],
    ['with no ID token', () => tokenAnswer(200, '{"access_token":"a","token_type":"bearer"}')],
    ['with a code that was used', () => tokenAnswer(400, '{"error":"invalid_grant"}')],
  ])('is not believed: %s', async (_what, lie) => {
    const reply = await loginAgainst(lie());
    expectError(reply, 'login_failed');
    expect(reply.headers['set-cookie']).toBeUndefined();
  });

  it.each<readonly [string, Lie]>([
    ['fails', tokenAnswer(500, '{}')],
    ['does not know this service', tokenAnswer(401, '{"error":"invalid_client"}')],
    ['answers without an end', tokenAnswer(200, ' '.repeat(300_000))],
  ])('counts as away where it %s', async (_what, lie) => {
    expectError(await loginAgainst(lie), 'service_unavailable');
  });

  it.each([
    ['another issuer', { issuer: 'https://other.example' }],
    ['an address that runs a script', { authorization_endpoint: 'javascript:alert(1)' }],
    ['no address for logins', { authorization_endpoint: undefined }],
  ])('is not gone to where its metadata has %s', async (_what, metadata) => {
    hostile.lie('', { metadata });
    const asked = identityProvider(hostile.settings, { outbound, clock: systemClock });
    const secrets = { state: 's', nonce: 'n', codeVerifier: 'v' };
    await expect(asked.authorizationUrl('https://trust.example/', secrets)).rejects.toThrow(ProviderAway);
  });
});

describe('the ways to log in', () => {
  const methods = async (at: Api) => (await at.call({ url: '/v1/login-methods', key: null })).body;

  it('have no provider where none is set, and a login with it says so', async () => {
    const at = await startApi();
    expect(await methods(at)).toMatchObject({ oidc: null });
    expectError(await begin({}, at), 'invalid_request');
    await at.close();
  });

  it('say that the provider is away, while passwords go on', async () => {
    const own = await startTestProvider();
    const at = await startOwnApi({ provider: own.settings });
    const { email, password } = await at.createUser();
    own.state = 'away';
    expect(await methods(at)).toMatchObject({ oidc: { name: 'Example Login', available: false } });
    const begun = await begin({}, at);
    expectError(begun, 'service_unavailable');
    expect(begun.body.error.message).toContain('Log in with your password');
    expect((await post(at, '/v1/session', { email, password })).status).toBe(200);
    await own.close();
    await at.close();
  });
});

describe('the metadata of the provider', () => {
  const times = { nowMs: 0 };
  const clock = { now: systemClock.now, monotonic: () => times.nowMs as MonotonicMillis };
  const reachedBy = (asked: ReturnType<typeof identityProvider>) =>
    Promise.all(Array.from({ length: 50 }, () => asked.isReachable()));

  it('is read once for concurrent logins, and again after ten minutes, or five seconds after a failure', async () => {
    const own = await startTestProvider();
    try {
      const asked = identityProvider(own.settings, { outbound, clock });
      expect(new Set(await reachedBy(asked))).toEqual(new Set([true]));
      own.state = 'away';
      times.nowMs += 10 * minuteMs - 1;
      expect(await asked.isReachable()).toBe(true);
      expect(own.asked).toHaveLength(1);
      times.nowMs += 1;
      expect(new Set(await reachedBy(asked))).toEqual(new Set([false]));
      expect(own.asked).toHaveLength(2);
      own.state = 'well';
      times.nowMs += 4_999;
      expect(await asked.isReachable()).toBe(false);
      times.nowMs += 1;
      expect(await asked.isReachable()).toBe(true);
      expect(own.asked).toHaveLength(3);
    } finally {
      await own.close();
    }
  });

  it('is not waited for longer than five seconds', async () => {
    const own = await startTestProvider();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      own.state = 'silent';
      const asked = identityProvider(own.settings, { outbound, clock });
      const reached = asked.isReachable();
      await vi.waitFor(() => expect(own.asked).toHaveLength(1));
      vi.advanceTimersByTime(5_000);
      expect(await reached).toBe(false);
    } finally {
      vi.useRealTimers();
      await own.close();
    }
  });
});
