import { describe, expect, it } from 'vitest';
import { relyingPartyOf } from '../../control-plane/people/relying-party.ts';
import { type Authenticator, authenticator, type Deviation } from '../support/data/authenticator.ts';
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
import { logInAgain } from '../support/service/good-calls.ts';
import { useApi } from '../support/service/use-api.ts';

const origin = 'http://localhost:8080';
const api = useApi(() => startOwnApi({ origin }));

const own = (
  { headers }: Pick<LoggedIn, 'headers'>,
  method: string,
  path: string,
  body?: object,
  cookie = '',
): Promise<Reply> =>
  api.call({
    method,
    url: `/v1/users/me/passkeys${path}`,
    key: null,
    headers: { ...headers, cookie: `${headers['cookie']}; ${cookie}` },
    ...(body === undefined ? {} : { body }),
  });
const post = (url: string, body: object, cookie = ''): Promise<Reply> =>
  api.call({ url, key: null, headers: { ...fromConsole, cookie }, body });

/** The options for a new passkey, and the cookie of their challenge. */
async function begin(person: LoggedIn, password = person.password) {
  const reply = await own(person, 'POST', '/begin', { password });
  return { reply, options: reply.body.options, cookie: cookiesOf(reply) };
}
async function add(person: LoggedIn, made: Authenticator, deviation: Deviation = {}): Promise<Reply> {
  const { options, cookie } = await begin(person);
  return own(person, 'POST', '', { name: 'Laptop', response: made.create(options, deviation) }, cookie);
}
async function beginLogin() {
  const reply = await post('/v1/session/passkey/begin', {});
  return { options: reply.body.options, cookie: cookiesOf(reply) };
}
async function logIn(made: Authenticator, deviation: Deviation = {}): Promise<Reply> {
  const { options, cookie } = await beginLogin();
  return post('/v1/session/passkey', { response: made.get(options, deviation) }, cookie);
}
/** Somebody with a passkey. */
async function withPasskey() {
  const person = await api.createUser({ role: 'auditor' });
  const made = authenticator(origin);
  const { status, body } = await add(person, made);
  expect(status, JSON.stringify(body)).toBe(201);
  return { person, made, passkeyId: String(body.passkey_id) };
}

const neverTaken: readonly (readonly [string, Deviation])[] = [
  ['of another origin', { origin: 'https://evil.example' }],
  ['for another host', { rpId: 'evil.example' }],
  ['for another challenge', { challenge: Buffer.alloc(32).toString('base64url') }],
  ['that nobody has unlocked', { isUnverified: true }],
];

describe('a new passkey', () => {
  it('is made after the password, discoverable and with user verification', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const wrong = await begin(person, 'not the password');
    expectError(wrong.reply, 'invalid_request', 'password');
    const { reply, options } = await begin(person);
    expect(reply.headers['set-cookie']).toMatch(
      /^__Host-agent_trust_new_passkey=v1\.[\w.-]+; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=600$/,
    );
    expect(options).toMatchObject({
      rp: { id: 'localhost' },
      user: { id: Buffer.from(person.userId).toString('base64url'), name: person.email },
      attestation: 'none',
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    });
  });

  it('is listed, named anew and removed, by its person alone', async () => {
    const { person, made, passkeyId } = await withPasskey();
    const other = await api.createUser({ role: 'owner' });
    const listed = await own(person, 'GET', '');
    expect(listed.body.items).toEqual([
      { passkey_id: passkeyId, name: 'Laptop', created_at: expect.any(String), last_used_at: null },
    ]);
    expect((await own(other, 'GET', '')).body.items).toEqual([]);
    for (const [method, body] of [
      ['PATCH', { name: 'Mine' }],
      ['DELETE', undefined],
    ] as const)
      expectError(await own(other, method, `/${passkeyId}`, body), 'passkey_not_found');
    const renamed = await own(person, 'PATCH', `/${passkeyId}`, { name: 'Telephone' });
    expect(renamed.body).toMatchObject({ passkey_id: passkeyId, name: 'Telephone' });
    expect((await own(person, 'DELETE', `/${passkeyId}`)).status).toBe(204);
    expectError(await own(person, 'DELETE', `/${passkeyId}`), 'passkey_not_found');
    expectError(await logIn(made), 'login_failed');
    const { entries } = (await api.call({ url: `/v1/audit?target=${passkeyId}` })).body;
    expect(entries.map((each: { operation: string }) => each.operation)).toEqual([
      ...['removePasskey', 'renamePasskey', 'addPasskey'],
    ]);
    for (const { actor } of entries) expect(actor).toMatchObject({ type: 'user', id: person.userId });
  });

  it.each<readonly [string, Deviation]>([
    ...neverTaken,
    ['that is an answer to a login', { type: 'webauthn.get' }],
    ['with certificates of a stranger', { format: 'android-safetynet' }],
  ])('is refused: %s', async (_what, deviation) => {
    const person = await api.createUser({ role: 'auditor' });
    expectError(await add(person, authenticator(origin), deviation), 'invalid_request', 'response');
    expect((await own(person, 'GET', '')).body.items).toEqual([]);
  });

  it('is refused a second time, in another session, and without the cookie', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const { options, cookie } = await begin(person);
    const body = { name: 'Laptop', response: authenticator(origin).create(options) };
    const refused = async (by: Pick<LoggedIn, 'headers'>, sent: object, with_: string) =>
      expectError(await own(by, 'POST', '', sent, with_), 'invalid_request', 'response');
    await refused(person, body, '');
    await refused(await logInAgain(api, person), body, cookie);
    await refused(await api.createUser({ role: 'auditor' }), body, cookie);
    await refused(person, { name: 'x', response: { id: 1, response: 'nothing' } }, cookie);
    expect((await own(person, 'POST', '', body, cookie)).status).toBe(201);
    await refused(person, { ...body, response: authenticator(origin).create(options) }, cookie);
  });

  it('is refused where its credential is registered already, for whomever', async () => {
    const { person, made } = await withPasskey();
    const copy = authenticator(origin, { credentialId: made.credentialId });
    for (const each of [person, await api.createUser({ role: 'auditor' })])
      expectError(await add(each, copy), 'invalid_request', 'response');
    expect((await logIn(made)).body.user.user_id).toBe(person.userId);
  });

  it('is one of at most twenty', async () => {
    const { person } = await withPasskey();
    await api.deps.sql`
      INSERT INTO passkeys (passkey_id, user_id, credential_id, public_key, counter, transports, name, created_at_ms)
      SELECT 'more_' || n, ${person.userId}, 'more_' || n, '', 0, '{}', 'More', 0 FROM generate_series(1, 19) AS n`;
    expectError((await begin(person)).reply, 'user_state_conflict');
  });
});

describe('a login with a passkey', () => {
  it('needs neither address, password nor code, and begins a session of its own', async () => {
    const { person, made, passkeyId } = await withPasskey();
    await api.deps.sql`
      UPDATE users SET totp_sealed = 'sealed', totp_confirmed_at_ms = 1 WHERE user_id = ${person.userId}`;
    const { options, cookie } = await beginLogin();
    expect(options).toMatchObject({ rpId: 'localhost', userVerification: 'required' });
    expect(options.allowCredentials ?? []).toEqual([]);
    const before = String(person.headers['cookie']).split(';')[0];
    const reply = await post('/v1/session/passkey', { response: made.get(options) }, `${cookie}; ${before}`);
    expect(reply.status).toBe(200);
    expect(reply.body.user.user_id).toBe(person.userId);
    const session = (headers: Readonly<Record<string, string>>) =>
      api.call({ url: '/v1/session', key: null, headers });
    expect((await session({ cookie: cookiesOf(reply) })).body.session_id).toBe(reply.body.session_id);
    expectError(await session(person.headers), 'unauthorized');
    const { entries } = (await api.call({ url: `/v1/audit?target=${reply.body.session_id}` })).body;
    expect(entries).toMatchObject([
      { operation: 'logInWithPasskey', actor: { type: 'user', id: person.userId } },
    ]);
    expect(entries[0].after).toMatchObject({ passkey_id: passkeyId });
  });

  it.each<readonly [string, Deviation]>([
    ...neverTaken,
    ['that is an answer to a registration', { type: 'webauthn.create' }],
    ['signed by another key', { isForged: true }],
    ['of somebody else', { userHandle: Buffer.from(`usr_${'0'.repeat(26)}`).toString('base64url') }],
    ['of nobody', { userHandle: '' }],
  ])('is refused: %s', async (_what, deviation) => {
    const { made } = await withPasskey();
    const reply = await logIn(made, deviation);
    expectError(reply, 'login_failed');
    expect(reply.headers['set-cookie']).toBeUndefined();
  });

  it('is refused with the credential of another account', async () => {
    const { key } = await api.createAccount();
    const { made } = await withPasskey();
    const other = await api.createUser({}, key);
    const copy = authenticator(origin, { credentialId: made.credentialId });
    const userHandle = Buffer.from(other.userId).toString('base64url');
    for (const each of [made, copy]) expectError(await logIn(each, { userHandle }), 'login_failed');
    expectError(await logIn(authenticator(origin)), 'login_failed');
  });

  it('is refused a second time, also of two at once, and in another browser', async () => {
    const { made } = await withPasskey();
    const { options, cookie } = await beginLogin();
    const response = made.get(options);
    expectError(await post('/v1/session/passkey', { response }), 'login_failed');
    const finish = () => post('/v1/session/passkey', { response }, cookie);
    const both = await Promise.all([finish(), finish()]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 401]);
    expectError(await finish(), 'login_failed');
    // A new answer to the challenge that was used.
    const again = made.get(options);
    expectError(await post('/v1/session/passkey', { response: again }, cookie), 'login_failed');
  });

  it('is refused with a counter that has not moved on: of a copy', async () => {
    const { made } = await withPasskey();
    expect((await logIn(made, { counter: 7 })).status).toBe(200);
    expectError(await logIn(made, { counter: 7 }), 'login_failed');
    expectError(await logIn(made, { counter: 0 }), 'login_failed');
    expect((await logIn(made, { counter: 8 })).status).toBe(200);
    const { made: uncounted } = await withPasskey();
    for (let n = 0; n < 2; n++) expect((await logIn(uncounted, { counter: 0 })).status).toBe(200);
  });

  it('is refused to a disabled user, and ends with the user', async () => {
    const { person, made } = await withPasskey();
    const change = (body: object) => api.call({ method: 'PATCH', url: `/v1/users/${person.userId}`, body });
    await change({ status: 'disabled' });
    expectError(await logIn(made), 'login_failed');
    await change({ status: 'active' });
    expect((await logIn(made)).status).toBe(200);
    await api.call({ method: 'DELETE', url: `/v1/users/${person.userId}` });
    expectError(await logIn(made), 'login_failed');
    expect((await api.deps.sql`SELECT FROM passkeys WHERE user_id = ${person.userId}`).count).toBe(0);
  });

  it('takes nothing that is no answer of a browser', async () => {
    const { made } = await withPasskey();
    const { cookie } = await beginLogin();
    const { credentialId } = made;
    for (const response of [
      {},
      { id: 'x'.repeat(2_000) },
      { id: credentialId },
      { id: credentialId, rawId: credentialId, type: 'public-key', response: { userHandle: 'AAAA' } },
      { id: credentialId, response: 'text' },
    ])
      expectError(await post('/v1/session/passkey', { response }, cookie), 'login_failed');
  });
});

describe('passkeys', () => {
  it('leave a user without a password one way to log in', async () => {
    const { person, passkeyId } = await withPasskey();
    await api.deps.sql`UPDATE users SET password_hash = NULL WHERE user_id = ${person.userId}`;
    expectError(await own(person, 'DELETE', `/${passkeyId}`), 'user_state_conflict');
    expect((await own(person, 'GET', '')).body.items).toHaveLength(1);
    await api.deps.sql`
      INSERT INTO oidc_identities VALUES (${person.userId}, 'https://login.example.com', 'subject', 1)`;
    expect((await own(person, 'DELETE', `/${passkeyId}`)).status).toBe(204);
  });

  it('are offered where browsers keep them, and refused elsewhere', async () => {
    const methods = (at: Api) => at.call({ url: '/v1/login-methods', key: null });
    expect((await methods(api)).body.passkeys).toBe(true);
    const byAddress = await startApi();
    expect((await methods(byAddress)).body.passkeys).toBe(false);
    const url = '/v1/session/passkey/begin';
    expectError(await byAddress.call({ url, key: null, headers: fromConsole, body: {} }), 'invalid_request');
    await byAddress.close();
    expect(
      ['https://trust.example.com', 'http://trust.example.com', 'https://10.0.0.1', 'https://[::1]:8443'].map(
        (each) => relyingPartyOf(`${each}/v1`)?.id ?? null,
      ),
    ).toEqual(['trust.example.com', null, null, null]);
  });
});
