import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { peopleLimits } from '../../control-plane/people/limits.ts';
import { type Api, cookiesOf, fromConsole, type LoggedIn, type Reply, startApi } from '../support/api.ts';
import { authenticator } from '../support/authenticator.ts';
import { expectError } from '../support/expect-error.ts';
import { until } from '../support/until.ts';

const origin = 'http://localhost:8080';
let api: Api;
beforeAll(async () => {
  // A hash takes some milliseconds, so that a flood waits for it as it does in earnest.
  api = await startApi({ origin, passwordCost: { logN: 12, r: 8, p: 1 } });
});
afterEach(() => api.deps.sql`DELETE FROM login_attempts`);
afterAll(() => api?.close());

async function post(
  url: string,
  body: object,
  { cookie = '', from = '127.0.0.1' }: { readonly cookie?: string; readonly from?: string } = {},
): Promise<Reply> {
  const answer = await api.app.inject({
    method: 'POST',
    url: `/v1${url}`,
    headers: { ...fromConsole, cookie, 'content-type': 'application/json' },
    payload: JSON.stringify(body),
    remoteAddress: from,
  });
  return { status: answer.statusCode, body: answer.json(), headers: answer.headers };
}
const logIn = ({ email, password }: Pick<LoggedIn, 'email' | 'password'>, from: string, cookie = '') =>
  post('/session', { email, password }, { from, cookie });
const codeOf = ({ status, body }: Reply): string => (status === 200 ? 'ok' : body.error.code);
const counted = async (): Promise<number> => {
  const [row] = await api.deps.sql<[{ total: number }]>`
    SELECT coalesce(max(attempts), 0)::integer AS total FROM login_attempts`;
  return row.total;
};

/** Strangers from so many networks, each of which tries again whatever the answer was, until it is ended. */
function flood(networks: number, clients: number, addressOf: (network: number, tries: number) => string) {
  let isOn = true;
  const codes: string[] = [];
  const served = new Set<number>();
  const client = async (place: number) => {
    for (let tries = 0; isOn; tries++) {
      const network = (place + tries * clients) % networks;
      const email = `nobody-${place}-${tries}@example.com`;
      const code = codeOf(await logIn({ email, password: 'a wrong password' }, addressOf(network, tries)));
      codes.push(code);
      if (code === 'login_failed') served.add(network);
    }
  };
  const clientsDone = Promise.all(Array.from({ length: clients }, (_each, place) => client(place)));
  return {
    codes,
    /** Each of its networks has had a turn: it is no newcomer any more. */
    isKnown: () => until(() => served.size === networks, { what: 'a turn of each network' }),
    end: async () => {
      isOn = false;
      await clientsDone;
    },
  };
}

describe('a flood of strangers from 200 addresses', () => {
  const newcomer = '203.0.113.7';

  it.each([
    ['of one network', 1, (_network: number, tries: number) => `10.99.0.${tries % 200}`],
    ['of 20 networks', 20, (network: number, tries: number) => `10.${network}.0.${tries % 5}`],
    ['of IPv6', 20, (network: number) => `2001:db8:${network.toString(16)}::1`],
  ])('%s keeps out no new browser, invitation or browser that was here', async (_of, networks, addressOf) => {
    const user = await api.createUser({ role: 'auditor' });
    const invited = await api.call({
      url: '/v1/users',
      body: { email: `invited-${networks}-${_of.length}@example.com`, role: 'auditor' },
    });
    const attack = flood(networks, 30, addressOf);
    try {
      await attack.isKnown();
      await until(() => attack.codes.includes('overloaded'), { what: 'a full lane' });
      const token = new URL(invited.body.invitation_url).hash.slice('#token='.length);
      const acceptance = { token, name: 'New', password: 'a password of a new one' };
      expect(codeOf(await post('/invitations/accept', acceptance, { from: addressOf(0, 0) }))).toBe('ok');
      expect(codeOf(await logIn(user, addressOf(0, 0), user.headers['cookie']))).toBe('ok');
      expect(codeOf(await logIn(user, newcomer))).toBe('ok');
    } finally {
      await attack.end();
    }
  });

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

  it('does not stand before passkeys', async () => {
    const person = await api.createUser({ role: 'auditor' });
    const made = authenticator(origin);
    const own = (path: string, body: object, cookie = '') =>
      post(`/users/me/passkeys${path}`, body, { cookie: `${person.headers['cookie']}; ${cookie}` });
    const begun = await own('/begin', { password: person.password });
    await own('', { name: 'Laptop', response: made.create(begun.body.options) }, cookiesOf(begun));
    const attack = flood(1, 30, () => '10.98.9.9');
    try {
      await until(() => attack.codes.includes('overloaded'), { what: 'a full lane' });
      const login = await post('/session/passkey/begin', {}, { from: newcomer });
      const sent = { response: made.get(login.body.options) };
      expect(codeOf(await post('/session/passkey', sent, { cookie: cookiesOf(login), from: newcomer }))).toBe(
        'ok',
      );
    } finally {
      await attack.end();
    }
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
