import { describe, expect, it } from 'vitest';
import { canonicalizeEmails } from '../../control-plane/people/canonical-emails.ts';
import { fromConsole, type LoggedIn, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const invite = (email: string, key = api.adminKey) =>
  api.call({ url: '/v1/users', key, body: { email, role: 'auditor' } });
const logIn = (email: string, { password }: Pick<LoggedIn, 'password'>) =>
  api.call({ url: '/v1/session', key: null, headers: fromConsole, body: { email, password } });

/** Each is read as `kirk@example.com` by somebody, or by something. */
const disguises = ['kir\u212a@example.com', 'kirk\u200b@example.com', 'kirk@example\uff0ecom'];

it('an address in disguise cannot log in, be invited or belong to a user', async () => {
  const kirk = await api.createUser({ email: 'kirk@example.com' });
  for (const email of disguises) {
    expectError(await logIn(email, kirk), 'invalid_request', 'email');
    expectError(await invite(email), 'invalid_request', 'email');
  }
  expect((await logIn('Kirk@Example.COM', kirk)).status).toBe(200);
});

it('has one user for an international domain, however it is written', async () => {
  const user = await api.createUser({ email: 'ada@bücher.example' });
  for (const email of ['ada@xn--bcher-kva.example', 'ADA@BÜCHER.example', 'ada@bücher.example']) {
    const reply = await logIn(email, user);
    expect(reply.body.user).toMatchObject({ user_id: user.userId, email: 'ada@xn--bcher-kva.example' });
    expectError(await invite(email), 'email_conflict', 'email');
  }
});

describe('addresses that were kept before', () => {
  const keep = async (email: string, key?: string) => {
    const user = await api.createUser({}, key);
    await api.deps.sql`UPDATE users SET email = ${email} WHERE user_id = ${user.userId}`;
    return user;
  };
  const emailOf = async ({ userId }: LoggedIn) =>
    (await api.deps.sql<{ email: string }[]>`SELECT email FROM users WHERE user_id = ${userId}`)[0]?.email;

  it('are brought into their form at a start, and two that would be one stay two', async () => {
    const other = await api.createAccount({ name: 'Other' });
    const alone = await keep('eve@tür.example');
    const elsewhere = await keep('eve@tür.example', other.key);
    const first = await keep('bob@straße.example');
    const second = await keep('bob@xn--strae-oqa.example');
    const twins = [await keep('zoe\u200b@example.com'), await keep('zoe@example.com')];
    const warned: object[] = [];
    const logger = { ...api.deps.logger, warn: (fields: object) => void warned.push(fields) };
    for (let starts = 0; starts < 2; starts++) {
      warned.length = 0;
      await canonicalizeEmails({ sql: api.deps.sql, logger });
      for (const user of [alone, elsewhere]) expect(await emailOf(user)).toBe('eve@xn--tr-xka.example');
      expect(await emailOf(first)).toBe('bob@straße.example');
      expect(await emailOf(second)).toBe('bob@xn--strae-oqa.example');
      expect(await Promise.all(twins.map(emailOf))).toEqual(['zoe\u200b@example.com', 'zoe@example.com']);
      expect(warned).toMatchObject([{ user_id: first.userId }, { user_id: twins[0]?.userId }]);
      // Of people the log has ids alone.
      expect(JSON.stringify(warned)).not.toContain('@');
    }
    expect((await logIn('eve@tür.example', alone)).body.user.user_id).toBe(alone.userId);
    expect((await logIn('bob@straße.example', second)).body.user.user_id).toBe(second.userId);
    expectError(await logIn('bob@straße.example', first), 'login_failed');
  });

  it('cause no warning when several control planes start at once', async () => {
    const users = await Promise.all(['Ö', 'Ü', 'Ä', 'Å'].map((letter) => keep(`fay@${letter}re.example`)));
    const warned: object[] = [];
    const logger = { ...api.deps.logger, warn: (fields: object) => void warned.push(fields) };
    await Promise.all(users.map(() => canonicalizeEmails({ sql: api.deps.sql, logger })));
    for (const email of await Promise.all(users.map(emailOf)))
      expect(email).toMatch(/^fay@xn--re-\w+\.example$/);
    const ids = users.map(({ userId }) => userId);
    expect(warned.filter((fields) => ids.includes((fields as { user_id: string }).user_id as never))).toEqual(
      [],
    );
  });

  it('are two also where both of them would change', async () => {
    const twins = [await keep('amy@Öl.example'), await keep('amy@öL.example')];
    await canonicalizeEmails(api.deps);
    expect(await Promise.all(twins.map(emailOf))).toEqual(['amy@Öl.example', 'amy@öL.example']);
  });
});
