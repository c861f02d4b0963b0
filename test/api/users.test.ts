import { beforeAll, describe, expect, it } from 'vitest';
import { inviteFirstOwner } from '../../control-plane/people/invite-first-owner.ts';
import { dayMs } from '../../shared/model/time.ts';
import { type Role, roles } from '../../shared/model/user.ts';
import { cookiesOf, fromConsole, type LoggedIn, type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const tokenOf = (url: string): string => new URL(url).hash.slice('#token='.length);
const accept = (token: string, body: object = {}): Promise<Reply> =>
  api.call({
    url: '/v1/invitations/accept',
    key: null,
    headers: fromConsole,
    body: { token, name: 'Grace Hopper', password: 'a password of length', ...body },
  });
const invite = (email: string, role: Role, key?: string): Promise<Reply> =>
  api.call({ url: '/v1/users', body: { email, role }, ...(key === undefined ? {} : { key }) });
const as = (person: LoggedIn, method: string, url: string, body?: object): Promise<Reply> =>
  api.call({ method, url, key: null, headers: person.headers, body });

describe('an invitation', () => {
  it('makes a user who has chosen name and password, once', async () => {
    const { body, status } = await invite('Grace@Example.com', 'approver');
    expect(status).toBe(201);
    expect(body.user).toMatchObject({
      email: 'grace@example.com',
      name: 'grace@example.com',
      role: 'approver',
      status: 'invited',
      totp_enabled: false,
      last_login_at: null,
    });
    expect(body.invitation_url).toMatch(/^http:\/\/127\.0\.0\.1:8080\/console\/invitation#token=[\w-]{43}$/);
    const accepted = await accept(tokenOf(body.invitation_url));
    expect(accepted.status).toBe(200);
    expect(accepted.body.user).toMatchObject({ name: 'Grace Hopper', status: 'active' });
    expectError(await accept(tokenOf(body.invitation_url)), 'invitation_not_found');
    const { body: read } = await api.call({ url: `/v1/users/${body.user.user_id}` });
    expect(read).toMatchObject({ status: 'active', last_login_at: expect.any(String) });
    const [kept] = await api.deps.sql`SELECT users::text AS text FROM users WHERE user_id = ${read.user_id}`;
    expect(kept?.['text']).not.toContain('a password of length');
  });

  it('makes one user where two accept at once', async () => {
    const { body } = await invite('two@example.com', 'auditor');
    const token = tokenOf(body.invitation_url);
    const replies = await Promise.all([accept(token, { name: 'One' }), accept(token, { name: 'Two' })]);
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 404]);
  });

  it('is replaced by a new one, and ends after seven days', async () => {
    const { body: first } = await invite('late@example.com', 'auditor');
    const url = `/v1/users/${first.user.user_id}/invitation`;
    const { body: second } = await api.call({ method: 'POST', url });
    expectError(await accept(tokenOf(first.invitation_url)), 'invitation_not_found');
    api.advance(7 * dayMs);
    expectError(await accept(tokenOf(second.invitation_url)), 'invitation_not_found');
    const { body: third } = await api.call({ method: 'POST', url });
    expect((await accept(tokenOf(third.invitation_url))).status).toBe(200);
    expectError(await api.call({ method: 'POST', url }), 'user_state_conflict');
  });

  it('ends with the user, and while the user is disabled', async () => {
    const { body } = await invite('gone@example.com', 'auditor');
    const url = `/v1/users/${body.user.user_id}`;
    await api.call({ method: 'PATCH', url, body: { status: 'disabled' } });
    expectError(await accept(tokenOf(body.invitation_url)), 'invitation_not_found');
    const { body: enabled } = await api.call({ method: 'PATCH', url, body: { status: 'active' } });
    expect(enabled.status).toBe('invited');
    expect((await api.call({ method: 'DELETE', url })).body).toMatchObject({ deleted: true });
    expectError(await accept(tokenOf(body.invitation_url)), 'invitation_not_found');
    expectError(await api.call({ url }), 'user_not_found');
  });

  it.each(['no address', `${'a'.repeat(65)}@example.com`])('takes no %s', async (email) => {
    expectError(await invite(email, 'auditor'), 'invalid_request', 'email');
  });

  it('takes no short password', async () => {
    const { body } = await invite('short@example.com', 'auditor');
    const token = tokenOf(body.invitation_url);
    expectError(await accept(token, { password: 'elevenchars' }), 'invalid_request', 'password');
    expectError(await accept(token, { password: 'x'.repeat(257) }), 'invalid_request', 'password');
    expect((await accept(token, { password: 'twelve chars' })).status).toBe(200);
  });
});

describe('the first owner', () => {
  it('comes by the first used link of a start, while the account has no user', async () => {
    const fresh = await startOwnApi();
    try {
      const links = [await inviteFirstOwner(fresh.deps), await inviteFirstOwner(fresh.deps)];
      const acceptAs = (link: string | null, email?: string) =>
        fresh.call({
          url: '/v1/invitations/accept',
          key: null,
          headers: fromConsole,
          body: { token: tokenOf(String(link)), name: 'Ada', password: 'the very first password', email },
        });
      expectError(await acceptAs(links[0] ?? null), 'invalid_request', 'email');
      const replies = await Promise.all([
        acceptAs(links[0] ?? null, 'ada@example.com'),
        acceptAs(links[1] ?? null, 'eve@example.com'),
      ]);
      expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 404]);
      const won = replies.find(({ status }) => status === 200);
      expect(won?.body).toMatchObject({
        user: { role: 'owner', status: 'active' },
        account: { is_operator: true },
        scopes: ['admin:*'],
      });
      const accounts = await fresh.call({
        url: '/v1/accounts',
        key: null,
        headers: { cookie: cookiesOf(won as Reply) },
      });
      expect(accounts.status).toBe(200);
      expect(await inviteFirstOwner(fresh.deps)).toBeNull();
    } finally {
      await fresh.close();
    }
  });
});

describe('the last active owner', () => {
  it('cannot be disabled, demoted or deleted, by any user', async () => {
    const { key } = await api.createAccount();
    const owner = await api.createUser({}, key);
    await api.createUser({ role: 'admin' }, key);
    const url = `/v1/users/${owner.userId}`;
    for (const body of [{ status: 'disabled' }, { role: 'admin' }])
      expectError(await api.call({ method: 'PATCH', url, key, body }), 'last_owner');
    expectError(await api.call({ method: 'DELETE', url, key }), 'last_owner');
    expectError(await as(owner, 'DELETE', url), 'last_owner');
    // Somebody who has not accepted yet, or is disabled, is nobody to rely on.
    const invited = await invite('o@example.com', 'owner', key);
    expectError(await api.call({ method: 'DELETE', url, key }), 'last_owner');
    await accept(tokenOf(invited.body.invitation_url));
    expect((await api.call({ method: 'DELETE', url, key })).status).toBe(200);
  });

  it('stays where two owners remove each other at once, at two replicas', async () => {
    const second = await secondControlPlane(api);
    try {
      for (let round = 0; round < 5; round++) {
        const { key, accountId } = await api.createAccount();
        const owners = [await api.createUser({}, key), await api.createUser({}, key)];
        const remove = (app: typeof api.app, by: number, of: number) =>
          app.inject({
            method: round % 2 === 0 ? 'DELETE' : 'PATCH',
            url: `/v1/users/${owners[of]?.userId}`,
            headers: { ...owners[by]?.headers, 'content-type': 'application/json' },
            ...(round % 2 === 0 ? {} : { payload: JSON.stringify({ role: 'auditor' }) }),
          });
        const replies = await Promise.all([remove(api.app, 0, 1), remove(second.app, 1, 0)]);
        const [left] = await api.deps.sql<{ count: number }[]>`
          SELECT count(*) FROM users WHERE account_id = ${accountId} AND role = 'owner' AND NOT is_disabled`;
        expect(left?.count, JSON.stringify(replies.map(({ statusCode }) => statusCode))).toBe(1);
      }
    } finally {
      await second.close();
    }
  });
});

describe('roles', () => {
  const people = new Map<Role, LoggedIn>();
  const rank = (role: Role) => roles.indexOf(role);
  beforeAll(async () => {
    for (const role of roles) people.set(role, await api.createUser({ role }));
  });

  it.each(roles)(
    '%s gives, changes and takes away no role above its own, nor any without the scope',
    async (role) => {
      const person = people.get(role) as LoggedIn;
      const mayManage = role === 'owner' || role === 'admin';
      for (const other of roles) {
        const isAllowed = mayManage && rank(other) >= rank(role);
        const email = `${role}-makes-${other}@example.com`.replaceAll('_', '-');
        const invited = await as(person, 'POST', '/v1/users', { email, role: other });
        expect(invited.status, other).toBe(isAllowed ? 201 : 403);
        const target = await invite(`for-${email}`, other);
        const url = `/v1/users/${target.body.user.user_id}`;
        for (const [method, path, body] of [
          ['PATCH', '', { name: 'changed' }],
          ['PATCH', '', { status: 'disabled' }],
          ['PATCH', '', { status: 'active' }],
          ['POST', '/invitation', undefined],
          ['DELETE', '', undefined],
        ] as const) {
          const reply = await as(person, method, `${url}${path}`, body);
          expect(reply.status, `${method} ${path} of ${other}`).toBe(isAllowed ? 200 : 403);
        }
      }
      const self = await as(person, 'PATCH', `/v1/users/${person.userId}`, { role: 'owner' });
      expect(self.status).toBe(role === 'owner' ? 200 : 403);
      const key = await as(person, 'POST', '/v1/api-keys', { name: 'escalates', scopes: ['admin:*'] });
      expect(key.status).toBe(role === 'owner' ? 201 : 403);
    },
  );

  it('gives an API key only roles whose scopes it holds', async () => {
    const { key } = await api.createKey({ scopes: ['keys:manage', 'gates:read'] });
    for (const role of roles)
      expectError(await invite('k@example.com', role, key), 'insufficient_scope', 'role');
  });

  it('ends every session of a user who gets another one, or is disabled', async () => {
    const url = (person: LoggedIn) => `/v1/users/${person.userId}`;
    for (const body of [{ role: 'auditor' }, { status: 'disabled' }]) {
      const person = await api.createUser({ role: 'approver' });
      expect((await as(person, 'GET', '/v1/session')).status).toBe(200);
      await api.call({ method: 'PATCH', url: url(person), body: { name: 'Another name' } });
      expect((await as(person, 'GET', '/v1/session')).status).toBe(200);
      await api.call({ method: 'PATCH', url: url(person), body });
      expectError(await as(person, 'GET', '/v1/session'), 'unauthorized');
    }
  });
});

it('keeps people out of the test world: a test key neither sees nor makes them', async () => {
  const { key } = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
  expectError(await api.call({ url: '/v1/users', key }), 'insufficient_scope');
  expectError(await invite('t@example.com', 'owner', key), 'insufficient_scope');
});

it('shows people of the own account alone, newest first', async () => {
  const { key } = await api.createAccount();
  const first = await api.createUser({}, key);
  const second = await api.createUser({ role: 'auditor' }, key);
  const list = await api.call({ url: '/v1/users', key });
  expect(list.body).toMatchObject({ total: 2, limit: 50, offset: 0 });
  expect(list.body.items.map((each: { user_id: string }) => each.user_id)).toEqual([
    second.userId,
    first.userId,
  ]);
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PATCH', '', { name: 'taken over' }],
    ['POST', '/invitation', undefined],
    ['DELETE', '', undefined],
  ] as const) {
    const url = `/v1/users/${first.userId}${path}`;
    expectError(await api.call({ method, url, body }), 'user_not_found');
  }
  // The same address may belong to somebody of another account.
  const { email } = first;
  const elsewhere = await api.createAccount();
  expect((await invite(email, 'owner', elsewhere.key)).status).toBe(201);
});
