import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { peopleLimits } from '../../control-plane/people/limits.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { browsersOf, codeOf, expectOpenDoor } from '../support/service/login-floods.ts';

let api: Api;
let post: ReturnType<typeof browsersOf>['post'];
let logIn: ReturnType<typeof browsersOf>['logIn'];
beforeAll(async () => {
  // A hash takes some milliseconds, so that a flood waits for it as it does in earnest.
  api = await startOwnApi({ passwordCost: { logN: 12, r: 8, p: 1 } });
  ({ post, logIn } = browsersOf(api));
});
afterEach(() => api.deps.sql`DELETE FROM login_attempts`);
afterAll(() => api?.close());

const counted = async (): Promise<number> => {
  const [row] = await api.deps.sql<[{ total: number }]>`
    SELECT coalesce(max(attempts), 0)::integer AS total FROM login_attempts`;
  return row.total;
};

describe('a flood of strangers from 200 addresses', () => {
  const newcomer = '203.0.113.7';

  it('of one network keeps out no new browser, invitation or browser that was here', () =>
    expectOpenDoor(api, 'one'));

  it('uses up only hashed tries, and has no effect after its end', async () => {
    const user = await api.createUser({ role: 'auditor' });
    const from = '198.51.100.4';
    const burst = await Promise.all(
      Array.from({ length: 10 * peopleLimits.hashesWaitingMax }, (_each, place) =>
        logIn({ email: `burst-${place}@example.com`, password: 'a wrong password' }, from),
      ),
    );
    const codes = burst.map(codeOf);
    const hashed = codes.filter((code) => code === 'login_failed').length;
    expect(codes).toContain('overloaded');
    expect(hashed).toBeLessThan(100);
    expect(await counted()).toBe(hashed);
    // The same network, at once.
    expect(codeOf(await logIn(user, from))).toBe('ok');
  });

  it('is answered 503 by a database that is away, which is no try either', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const before = await counted();
    await api.deps.sql`ALTER TABLE users RENAME TO users_away`;
    try {
      for (let tries = 0; tries < 12; tries++) {
        const reply = await logIn({ ...person, password: 'a wrong password' }, newcomer);
        expect(reply.status).toBeGreaterThanOrEqual(500);
      }
    } finally {
      await api.deps.sql`ALTER TABLE users_away RENAME TO users`;
    }
    expect(await counted()).toBe(before);
    expect(codeOf(await logIn(person, newcomer))).toBe('ok');
  });
});

describe('the work of a login', () => {
  /** How many passwords were really hashed meanwhile. */
  async function hashesOf(work: () => Promise<unknown>): Promise<number> {
    const { scrypt } = crypto;
    let hashes = 0;
    const counting = (...args: Parameters<typeof scrypt>) => {
      hashes += 1;
      return scrypt(...args);
    };
    crypto.scrypt = counting as typeof scrypt;
    syncBuiltinESMExports();
    try {
      await work();
    } finally {
      crypto.scrypt = scrypt;
      syncBuiltinESMExports();
    }
    return hashes;
  }

  it('is the same number of hashes for every address', async () => {
    const accounts = [];
    for (const name of ['One', 'Two', 'Three']) accounts.push(await api.createAccount({ name }));
    const shared = 'of-three-accounts@example.com';
    for (const { key } of accounts) await api.createUser({ email: shared }, key);
    const active = await api.createUser({ role: 'auditor' });
    const disabled = await api.createUser({ role: 'auditor' });
    await api.call({ method: 'PATCH', url: `/v1/users/${disabled.userId}`, body: { status: 'disabled' } });
    const invited = 'invited-and-never-here@example.com';
    await api.call({ url: '/v1/users', body: { email: invited, role: 'auditor' } });
    const suspended = await api.createUser({ email: 'of-suspended@example.com' }, accounts[0]?.key);
    await api.call({
      method: 'PUT',
      url: `/v1/accounts/${accounts[0]?.accountId}`,
      body: { status: 'suspended' },
    });
    const emails = ['nobody@example.com', invited, active.email, disabled.email, suspended.email, shared];
    const password = 'a wrong password';
    for (const [extra, expected] of [
      [{}, peopleLimits.loginCandidatesMax],
      [{ account_id: accounts[1]?.accountId }, 1],
    ] as const) {
      const counts: number[] = [];
      for (const email of emails) {
        counts.push(
          await hashesOf(async () =>
            expectError(await post('/session', { email, password, ...extra }), 'login_failed'),
          ),
        );
      }
      expect(counts).toEqual(emails.map(() => expected));
    }
  });

  it('finds a person with one password in two accounts by the account they name', async () => {
    const [one, two] = [await api.createAccount({ name: 'One' }), await api.createAccount({ name: 'Two' })];
    const wanted = { email: 'twice@example.com', password: 'one password for both' };
    for (const { key } of [one, two]) await api.createUser(wanted, key);
    const reply = await logIn(wanted, '192.0.2.9');
    expectError(reply, 'invalid_request', 'account_id');
    expect(reply.body.error.message).toContain(`One (${one.accountId}), Two (${two.accountId})`);
    expect(reply.headers['set-cookie']).toBeUndefined();
    expect(await counted()).toBe(0);
    for (const { accountId } of [one, two]) {
      const named = await post('/session', { ...wanted, account_id: accountId }, { from: '192.0.2.9' });
      expect(named.body.account.account_id).toBe(accountId);
    }
    // Who does not know the password learns nothing of it.
    expectError(await logIn({ ...wanted, password: 'a wrong password' }, '192.0.2.9'), 'login_failed');
  });
});
