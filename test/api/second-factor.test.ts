import { beforeAll, describe, expect, it } from 'vitest';
import { totpCode } from '../../control-plane/people/totp.ts';
import { fromConsole, type LoggedIn, type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { beginTotp, codeOf, logInAgain } from '../support/service/good-calls.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => {
  // No step of the codes ends between two requests.
  api.stopClock();
});

const own = (
  { headers }: Pick<LoggedIn, 'headers'>,
  method: string,
  path: string,
  body?: object,
): Promise<Reply> => api.call({ method, url: `/v1/users/me${path}`, key: null, headers, body });
const logIn = ({ email, password }: LoggedIn, code?: string): Promise<Reply> =>
  api.call({
    url: '/v1/session',
    key: null,
    headers: fromConsole,
    body: { email, password, ...(code === undefined ? {} : { totp_code: code }) },
  });

/** A user with a second factor in force. */
async function withTotp() {
  const person = await api.createUser({ role: 'auditor' });
  const secret = await beginTotp(api, person);
  const nowMs = () => api.deps.clock.now();
  const { body } = await own(person, 'POST', '/totp/confirm', { code: codeOf(secret, nowMs()) });
  const recoveryCodes: string[] = body.recovery_codes;
  return { person, recoveryCodes, code: () => codeOf(secret, nowMs()), secret };
}

it('computes the codes of RFC 6238', () => {
  const secret = Buffer.from('12345678901234567890');
  // Appendix B, cut to six digits.
  for (const [seconds, code] of [
    [59, '287082'],
    [1_111_111_109, '081804'],
    [20_000_000_000, '353130'],
  ] as const)
    expect(totpCode(secret, Math.floor(seconds / 30))).toBe(code);
});

describe('a second factor', () => {
  it('is asked for from its confirmation on, and after the password alone', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const secret = await beginTotp(api, person);
    expect((await logIn(person)).status).toBe(200);
    const wrong = await own(person, 'POST', '/totp/confirm', { code: '000000' });
    expectError(wrong, 'invalid_request', 'code');
    expect((await logIn(person)).status).toBe(200);
    const code = codeOf(secret, api.deps.clock.now());
    const { body } = await own(person, 'POST', '/totp/confirm', { code });
    expect(new Set(body.recovery_codes).size).toBe(10);
    for (const each of body.recovery_codes) expect(each).toMatch(/^[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}$/);
    expectError(await logIn(person), 'totp_required');
    expectError(await logIn({ ...person, password: 'not the password' }), 'login_failed');
    expectError(await logIn(person, '000000'), 'login_failed');
    const [kept] = await api.deps.sql`SELECT users::text AS text FROM users WHERE user_id = ${person.userId}`;
    for (const each of body.recovery_codes) expect(kept?.['text']).not.toContain(each);
    expect(kept?.['text']).not.toContain(Buffer.from(secret).toString('base64url'));
  });

  it('takes each code once, also of two logins at once, and none that is too old', async () => {
    const { person, code } = await withTotp();
    // That of the confirmation is used.
    expectError(await logIn(person, code()), 'login_failed');
    api.advance(30_000);
    const both = await Promise.all([logIn(person, code()), logIn(person, code())]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 401]);
    const missed = code();
    api.advance(30_000);
    expectError(await logIn(person, missed), 'login_failed');
    const late = code();
    api.advance(30_000);
    expect((await logIn(person, late)).status).toBe(200);
    const old = code();
    api.advance(60_000);
    expectError(await logIn(person, old), 'login_failed');
  });

  it('lets in by each recovery code once, however it is written', async () => {
    const { person, recoveryCodes } = await withTotp();
    const [first = '', second = ''] = recoveryCodes;
    expect((await logIn(person, first)).status).toBe(200);
    expectError(await logIn(person, first), 'login_failed');
    expect((await logIn(person, second.toLowerCase().replaceAll('-', ' '))).status).toBe(200);
  });

  it('is removed with the password alone, and then not asked for', async () => {
    const { person } = await withTotp();
    expectError(await own(person, 'DELETE', '/totp'), 'invalid_request', 'password');
    const wrong = { password: 'a guess of somebody' };
    expectError(await own(person, 'DELETE', '/totp', wrong), 'invalid_request', 'password');
    expectError(await logIn(person), 'totp_required');
    const { password } = person;
    expect((await own(person, 'DELETE', '/totp', { password })).status).toBe(204);
    expect((await logIn(person)).status).toBe(200);
    expectError(await own(person, 'POST', '/totp/confirm', { code: '000000' }), 'invalid_request', 'code');
  });
});

describe('a new password', () => {
  it('ends every session but the one that begins with it', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const other = await logInAgain(api, person);
    const change = { current_password: person.password, new_password: 'another long password' };
    const wrong = await own(person, 'POST', '/password', { ...change, current_password: 'wrong' });
    expectError(wrong, 'invalid_request', 'current_password');
    const changed = await own(person, 'POST', '/password', change);
    expect(changed.status).toBe(200);
    expect(changed.headers['set-cookie']).toBeDefined();
    for (const { headers } of [person, other])
      expectError(await api.call({ url: '/v1/session', key: null, headers }), 'unauthorized');
    expectError(await logIn(person), 'login_failed');
    expect((await logIn({ ...person, password: change.new_password })).status).toBe(200);
  });

  it('cannot be tried for at leisure in a browser that was left open', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const change = { current_password: 'a guess of somebody', new_password: 'another long password' };
    for (let tries = 0; tries < 10; tries++)
      expectError(await own(person, 'POST', '/password', change), 'invalid_request', 'current_password');
    expectError(await own(person, 'POST', '/password', change), 'rate_limited');
    // Every question for the password counts the same.
    expectError(await own(person, 'DELETE', '/totp', { password: 'another guess' }), 'rate_limited');
  });
});
