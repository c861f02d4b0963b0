import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { approvalUndoMs } from '../../shared/model/approval.ts';
import { type LoggedIn, type Reply, startOwnApi } from '../support/service/api.ts';
import { askApproval, goToNoon, heldUsd } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { startTestEmbedded, startTestSidecar } from '../support/service/sidecar.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const second = useStarted(() => secondControlPlane(api));
/** People of the account who may answer. */
let ada: LoggedIn;
let ben: LoggedIn;
let cyd: LoggedIn;
beforeAll(async () => {
  goToNoon(api);
  ada = await api.createUser({ role: 'approver' });
  ben = await api.createUser({ role: 'approver' });
  cyd = await api.createUser({ role: 'admin' });
});
afterAll(() => expectSoundStore(api));

const as = (person: LoggedIn, method: string, url: string, body?: object): Promise<Reply> =>
  api.call({ method, url, key: null, headers: person.headers, ...(body === undefined ? {} : { body }) });
const answer = (person: LoggedIn, id: string, word: 'approve' | 'deny' | 'undo', note?: string) =>
  as(person, 'POST', `/v1/approvals/${id}/${word}`, note === undefined ? undefined : { note });
const get = async (id: string, person?: LoggedIn) =>
  (
    await (person === undefined
      ? api.call({ url: `/v1/approvals/${id}` })
      : as(person, 'GET', `/v1/approvals/${id}`))
  ).body;
const gateWith = (approvers: object, more: object = {}) =>
  api.createGate({
    constraints: { approvals: { above_usd: 10, approvers, ...more }, spend_limits: { daily_usd: 1_000 } },
  });
const recordsOf = async (approvalId: string, passportId: string) => {
  const { body } = await api.call({ url: `/v1/attestations?passport_id=${passportId}` });
  return body.attestations.filter((each: Reply['body']) => each.refers_to === approvalId);
};
/** An approval at a new gate with that rule. */
async function asked(approvers: object, more: object = {}) {
  const { gate_id: gateId } = await gateWith(approvers, more);
  const { passport_id: passportId } = await api.issuePassport();
  const { approvalId } = await askApproval(api.deps, { gateId, passportId });
  return { gateId, passportId, approvalId };
}

describe('the rule of a gate', () => {
  const refused = async (approvers: object, param: string, words: RegExp) => {
    const body = { name: 'Orders', trust_level: 'L1', constraints: { approvals: { approvers } } };
    const reply = await api.call({ url: '/v1/gates', body });
    expectError(reply, 'invalid_request', `constraints.approvals.approvers.${param}`);
    expect(reply.body.error.message).toMatch(words);
  };

  it('names who can answer, or is refused with what to do', async () => {
    const other = await api.createAccount();
    const stranger = await api.createUser({ role: 'approver' }, other.key);
    const reader = await api.createUser({ role: 'read_only' });
    await refused(
      { users: [ada.userId, stranger.userId] },
      'users.1',
      /no user of this account. GET \/users/,
    );
    await refused(
      { users: [reader.userId] },
      'users.0',
      /role read_only.* Change the role to approver first/,
    );
    await refused({ users: ['ada@example.com'] }, 'users.0', /user_id \(usr_/);
    await refused({ users: [ada.userId, ben.userId], count: 3 }, 'count', /2 active people.*could answer/);
    await refused({ roles: ['owner'], count: 2 }, 'count', /0 active people/);
  });

  it('counts nobody who has not accepted an invitation', async () => {
    const { key } = await api.createAccount();
    await api.call({ url: '/v1/users', key, body: { email: 'new@example.com', role: 'owner' } });
    const body = { name: 'Orders', trust_level: 'L1', constraints: { approvals: { approvers: {} } } };
    const reply = await api.call({ url: '/v1/gates', key, body });
    expectError(reply, 'invalid_request', 'constraints.approvals.approvers.count');
    expect(reply.body.error.message).toContain('wait until they have accepted');
  });

  it('is refused in a passport, which has no say in who answers', async () => {
    const constraints = { approvals: { above_usd: 1, approvers: {} } };
    const body = { agent_id: 'agent-with-approvers', permissions: ['orders:create'], constraints };
    const reply = await api.call({ url: '/v1/passports', body });
    expectError(reply, 'invalid_request', 'constraints.approvals.approvers');
  });

  it('changes by a merge patch, and people who left stop no other change', async () => {
    const leaver = await api.createUser({ role: 'approver' });
    const { gate_id } = await gateWith({ users: [leaver.userId], count: 1 });
    await api.call({ method: 'DELETE', url: `/v1/users/${leaver.userId}` });
    const put = (approvals: object) =>
      api.call({ method: 'PUT', url: `/v1/gates/${gate_id}`, body: { constraints: { approvals } } });
    expect((await put({ above_usd: 20 })).status).toBe(200);
    const wrong = await put({ approvers: { count: 2 } });
    expectError(wrong, 'invalid_request', 'constraints.approvals.approvers.users.0');
    expectError(
      await put({ approvers: { rolse: null } }),
      'invalid_request',
      'constraints.approvals.approvers.rolse',
    );
    const changed = await put({ approvers: { users: null, roles: ['approver'] } });
    expect(changed.body.constraints.approvals).toEqual({ above_usd: 20, approvers: { roles: ['approver'] } });
    const gone = await put({ approvers: null });
    expect(gone.body.constraints.approvals).toEqual({ above_usd: 20 });
  });

  it('does not reach sidecars, but for the wish to know who asks', async () => {
    const { account_id: account } = (await api.call({ url: '/v1/accounts' })).body.items.at(-1);
    const gate = await gateWith({ count: 2 });
    const told = (await api.changes(account)).find(({ body }) => body.gate_id === gate.gate_id);
    expect(told?.body.constraints).toEqual({
      approvals: { above_usd: 10 },
      spend_limits: { daily_usd: 1_000 },
    });
    expect(told?.body.names_asker).toBe(true);
    const open = await gateWith({ not_requester: false });
    const second = (await api.changes(account)).find(({ body }) => body.gate_id === open.gate_id);
    expect(second?.body).not.toHaveProperty('names_asker');
  });
});

describe('the owner of the passport', () => {
  it('does not answer where the gate says so, whoever else may', async () => {
    const owned = async (approvers: object, owner: string) => {
      const { gate_id: gateId } = await gateWith(approvers);
      const { passport_id: passportId } = await api.issuePassport({ owner });
      return (await askApproval(api.deps, { gateId, passportId })).approvalId;
    };
    const may = async (id: string, person: LoggedIn) => (await get(id, person)).you;
    for (const rule of [{ not_owner: true }, { not_owner: true, not_requester: false }]) {
      for (const owner of [ada.email.toUpperCase(), ada.userId]) {
        const id = await owned(rule, owner);
        expect(await may(id, ada)).toMatchObject({ may_answer: false, why_not: 'requester' });
        expectError(await answer(ada, id, 'approve'), 'not_an_approver');
        const waiting = async (person: LoggedIn) =>
          (await as(person, 'GET', '/v1/approvals?waiting_for=me')).body.items.map(
            (each: Reply['body']) => each.approval_id,
          );
        expect(await waiting(ada)).not.toContain(id);
        expect(await waiting(ben)).toContain(id);
        expect((await answer(ben, id, 'approve')).body.status).toBe('approved');
      }
    }
    expect(await may(await owned({}, ada.email), ada)).toMatchObject({ may_answer: true });
    const other = await owned({ not_owner: true }, 'the data team');
    expect(await may(other, ada)).toMatchObject({ may_answer: true });
  });
});

describe('two people', () => {
  it('approve: the first leaves it pending, the second resolves it, and both stand on record', async () => {
    const { approvalId, passportId } = await asked({ count: 2 });
    const first = await answer(ada, approvalId, 'approve', 'seen by Ada');
    expect(first.body).toMatchObject({ status: 'pending', resolved_at: null, resolved_by: null });
    expect(first.body.answers).toEqual([
      { user_id: ada.userId, answer: 'approved', at: expect.any(String), note: 'seen by Ada', signed: false },
    ]);
    expect(await recordsOf(approvalId, passportId)).toEqual([]);
    expect(await get(approvalId, ada)).toMatchObject({
      ...{ answers_needed: 2, answers_missing: 1, you: { may_answer: false, why_not: 'answered' } },
    });
    expect(await get(approvalId, ben)).toMatchObject({ answers_missing: 1, you: { may_answer: true } });
    const last = await answer(ben, approvalId, 'approve', 'seen by Ben');
    expect(last.body).toMatchObject({ status: 'approved', resolved_by: ben.userId, note: 'seen by Ben' });
    expect(last.body.answers.map((each: Reply['body']) => each.user_id)).toEqual([ada.userId, ben.userId]);
    expect(await recordsOf(approvalId, passportId)).toMatchObject([{ resolution: 'approved' }]);
    expect(await get(approvalId, cyd)).toMatchObject({
      answers_missing: 0,
      you: { may_answer: false, why_not: 'resolved' },
    });
    const { body: audit } = await api.call({ url: `/v1/audit?target=${approvalId}` });
    expect(audit.entries.map((each: Reply['body']) => [each.operation, each.actor.id])).toEqual([
      ['approveApproval', ben.userId],
      ['approveApproval', ada.userId],
    ]);
    expect(audit.entries[1].after.answers).toMatchObject([{ user_id: ada.userId, note: 'seen by Ada' }]);
  });

  it('do not agree: one denial ends it and frees the money', async () => {
    const { approvalId, gateId } = await asked({ count: 3 });
    expect((await answer(ada, approvalId, 'approve')).body.status).toBe('pending');
    expect(await heldUsd(api.deps, gateId)).toBe(25);
    const denied = await answer(ben, approvalId, 'deny', 'too much');
    expect(denied.body).toMatchObject({ status: 'denied', note: 'too much', resolved_by: ben.userId });
    expect(denied.body.answers).toHaveLength(2);
    expect(await heldUsd(api.deps, gateId)).toBe(0);
    expectError(await answer(cyd, approvalId, 'approve'), 'approval_already_resolved');
  });

  it('are not one person twice, in one session or in two', async () => {
    const { approvalId } = await asked({ count: 2 });
    const replies = await Promise.all([1, 2, 3].map(() => answer(ada, approvalId, 'approve')));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expectError(await answer(ada, approvalId, 'deny'), 'approval_already_answered');
    const login = await api.call({
      url: '/v1/session',
      key: null,
      headers: { 'x-agent-trust-console': '1', 'sec-fetch-site': 'same-origin' },
      body: { email: ada.email, password: ada.password },
    });
    const cookie = [login.headers['set-cookie']].flat().map((each) => String(each).split(';', 1)[0]);
    const otherBrowser = { ...ada, headers: { ...ada.headers, cookie: cookie.join('; ') } };
    expectError(await answer(otherBrowser, approvalId, 'approve'), 'approval_already_answered');
    expect((await get(approvalId)).answers).toHaveLength(1);
  });

  /** The same answer by each person, at one of two control planes. */
  const at = (app: FastifyInstance, person: LoggedIn, id: string, word: 'approve' | 'deny') =>
    app
      .inject({ method: 'POST', url: `/v1/approvals/${id}/${word}`, headers: { ...person.headers } })
      .then((reply) => ({ status: reply.statusCode, body: reply.json() }));

  it('at once over two control planes resolve it once, with both answers on record', async () => {
    for (let round = 0; round < 4; round++) {
      const { approvalId, passportId } = await asked({ count: 2 });
      const replies = await Promise.all([
        at(api.app, ada, approvalId, 'approve'),
        at(second.app, ben, approvalId, 'approve'),
      ]);
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
      expect(replies.map(({ body }) => body.status).sort()).toEqual(['approved', 'pending']);
      const approval = await get(approvalId);
      expect(approval.status).toBe('approved');
      expect(approval.answers.map((each: Reply['body']) => each.user_id).sort()).toEqual(
        [ada.userId, ben.userId].sort(),
      );
      expect(await recordsOf(approvalId, passportId)).toMatchObject([{ resolution: 'approved' }]);
    }
  });
});

describe('who may not answer', () => {
  const whyNot = async (id: string, person: LoggedIn) => (await get(id, person)).you.why_not;
  const refusedTo = async (id: string, person: LoggedIn, why: string) => {
    const reply = await answer(person, id, 'approve');
    expectError(reply, 'not_an_approver');
    expect(await whyNot(id, person)).toBe(why);
    expect(reply.body.error.message).toBe((await get(id, person)).you.message);
    expect((await get(id)).answers).toEqual([]);
  };

  it('has another role, or is not named', async () => {
    const roles = await asked({ roles: ['approver'] });
    await refusedTo(roles.approvalId, cyd, 'not_named');
    const users = await asked({ users: [ben.userId] });
    await refusedTo(users.approvalId, ada, 'not_named');
    const both = await asked({ roles: ['admin'], users: [ben.userId] });
    expect(await Promise.all([ada, ben, cyd].map((each) => whyNot(both.approvalId, each)))).toEqual([
      'not_named',
      null,
      null,
    ]);
    const reader = await api.createUser({ role: 'auditor' });
    expect(await whyNot(both.approvalId, reader)).toBe('scope');
    expectError(await answer(reader, both.approvalId, 'approve'), 'insufficient_scope');
  });

  it('is an API key, an access token or a tool, where the gate names approvers', async () => {
    const { approvalId } = await asked({ not_requester: false });
    for (const word of ['approve', 'deny'])
      expectError(
        await api.call({ method: 'POST', url: `/v1/approvals/${approvalId}/${word}` }),
        'not_an_approver',
      );
    expect((await get(approvalId)).you).toMatchObject({ may_answer: false, why_not: 'api_key' });
    const plain = await api.createGate({ constraints: { approvals: { above_usd: 10 } } });
    const { passport_id: passportId } = await api.issuePassport();
    const open = await askApproval(api.deps, { gateId: plain.gate_id, passportId });
    expect((await get(open.approvalId)).you).toMatchObject({ may_answer: true, why_not: null });
    const resolved = await api.call({ method: 'POST', url: `/v1/approvals/${open.approvalId}/approve` });
    expect(resolved.body).toMatchObject({ status: 'approved', answers: [] });
  });

  it('made the passport, or the key that asks, or the key that made that key', async () => {
    const { gate_id: gateId } = await gateWith({});
    const byCyd = { agent_id: 'by-cyd', permissions: ['orders:create'] };
    const issued = await as(cyd, 'POST', '/v1/passports', byCyd);
    const own = await askApproval(api.deps, { gateId, passportId: issued.body.passport_id });
    await refusedTo(own.approvalId, cyd, 'requester');
    expect((await answer(ada, own.approvalId, 'approve')).body.status).toBe('approved');

    const makesKeys = ['keys:manage', 'enforcement:check', 'passports:issue'];
    const made = await as(cyd, 'POST', '/v1/api-keys', { name: 'of Cyd', scopes: makesKeys });
    const makes = { name: 'of a key', scopes: makesKeys };
    const below = await api.call({ url: '/v1/api-keys', key: made.body.key, body: makes });
    const url = `/v1/api-keys/${below.body.key_id}/roll`;
    const rolled = await api.call({ url, key: below.body.key, body: { overlap_s: 60 } });
    const { passport_id: passportId } = await api.issuePassport();
    for (const askedBy of [made.body.key_id, below.body.key_id, rolled.body.key_id, cyd.userId]) {
      const { approvalId } = await askApproval(api.deps, { gateId, passportId, askedBy });
      await refusedTo(approvalId, cyd, 'requester');
      expect(await whyNot(approvalId, ben)).toBeNull();
    }
    const byKey = await api.issuePassport({}, rolled.body.key);
    const { approvalId } = await askApproval(api.deps, { gateId, passportId: byKey.passport_id });
    await refusedTo(approvalId, cyd, 'requester');
  });

  it('is nobody while the sidecar does not say who asked', async () => {
    const { gate_id: gateId } = await gateWith({});
    const { passport_id: passportId } = await api.issuePassport();
    const { approvalId } = await askApproval(api.deps, { gateId, passportId, askedBy: null });
    await refusedTo(approvalId, ada, 'requester_unknown');
  });

  it('asked at this control plane', async () => {
    const { gate_id: gateId } = await gateWith({});
    const { jwt: passport } = await api.issuePassport();
    const request = { permission_key: 'orders:create', amount: 50 };
    const check = await as(cyd, 'POST', `/v1/gates/${gateId}/check`, { passport, request });
    expect(check.body).toMatchObject({ decision: 'SUSPEND' });
    await refusedTo(check.body.approval_id, cyd, 'requester');
    expect((await answer(ada, check.body.approval_id, 'approve')).body.status).toBe('approved');
  });
});

describe('a request at a sidecar', () => {
  const request = { permission_key: 'orders:create', amount: 50 };
  const keyOf = async (person: LoggedIn, scopes: readonly string[]): Promise<string> =>
    (await as(person, 'POST', '/v1/api-keys', { name: 'of a person', scopes })).body.key;

  it('names the key that asks, and its maker does not answer', async () => {
    const sidecar = await startTestSidecar({ api });
    try {
      const key = await keyOf(cyd, ['enforcement:check']);
      const { gate_id: gateId } = await gateWith({});
      const { jwt } = await api.issuePassport();
      await sidecar.caughtUp();
      const { body } = await sidecar.check(gateId, jwt, request, key);
      expect(body.decision).toBe('SUSPEND');
      expect((await get(body.approval_id, cyd)).you.why_not).toBe('requester');
      expect((await answer(ada, body.approval_id, 'approve')).body.status).toBe('approved');
      const open = await gateWith({ not_requester: false });
      await sidecar.caughtUp();
      const free = await sidecar.check(open.gate_id, jwt, request, key);
      expect((await get(free.body.approval_id, cyd)).you.may_answer).toBe(true);
    } finally {
      await sidecar.close();
      sidecar.removeFolder();
    }
  });

  it('without a key is that of the key with which the sidecar connects', async () => {
    const owner = await api.createUser({ role: 'owner' });
    const accountKey = await keyOf(owner, ['keys:manage', 'sidecars:connect']);
    const sidecar = await startTestEmbedded({ api, accountKey });
    try {
      const { gate_id: gateId } = await gateWith({});
      const { jwt } = await api.issuePassport();
      await sidecar.caughtUp();
      const { body } = await sidecar.check(gateId, jwt, request);
      expect((await get(body.approval_id, owner)).you.why_not).toBe('requester');
      expect((await get(body.approval_id, ada)).you.why_not).toBeNull();
    } finally {
      await sidecar.close();
      sidecar.removeFolder();
    }
  });
});

describe('an answer of somebody who may not answer any more', () => {
  const changed = (user: LoggedIn, body: object) =>
    api.call({ method: 'PATCH', url: `/v1/users/${user.userId}`, body });

  it.each<[string, (user: LoggedIn) => Promise<Reply>]>([
    ['is demoted', (user) => changed(user, { role: 'auditor' })],
    ['is disabled', (user) => changed(user, { status: 'disabled' })],
    ['is removed', (user) => api.call({ method: 'DELETE', url: `/v1/users/${user.userId}` })],
  ])('who %s: it stays on record and does not count', async (_, end) => {
    const leaver = await api.createUser({ role: 'approver' });
    const { approvalId } = await asked({ count: 2 });
    await answer(leaver, approvalId, 'approve');
    expect((await end(leaver)).status).toBeLessThan(300);
    expect(await get(approvalId, ada)).toMatchObject({
      answers_missing: 2,
      answers: [{ user_id: leaver.userId }],
    });
    expect((await answer(ada, approvalId, 'approve')).body.status).toBe('pending');
    const last = await answer(ben, approvalId, 'approve');
    expect(last.body.status).toBe('approved');
    expect(last.body.answers).toHaveLength(3);
  });
});

describe('a gate that changes between the answers', () => {
  it('ends the approval: the next answer is too late', async () => {
    const { approvalId, gateId } = await asked({ count: 2 });
    await answer(ada, approvalId, 'approve');
    const reply = await api.call({
      method: 'PUT',
      url: `/v1/gates/${gateId}`,
      body: { constraints: { approvals: { approvers: { count: 1 } } } },
    });
    expect(reply.status).toBe(200);
    expectError(await answer(ben, approvalId, 'approve'), 'approval_already_resolved');
    expect(await get(approvalId, ben)).toMatchObject({
      status: 'expired',
      answers: [{ user_id: ada.userId }],
    });
  });
});

describe('undone', () => {
  it('one of several answers is taken back, and the others stand', async () => {
    const { approvalId, passportId } = await asked({ count: 2 });
    await answer(ada, approvalId, 'approve', 'too fast');
    const undone = await answer(ada, approvalId, 'undo');
    expect(undone.body).toMatchObject({ status: 'pending', answers: [] });
    expectError(await answer(ada, approvalId, 'undo'), 'approval_already_resolved');
    await answer(ada, approvalId, 'approve');
    await answer(ben, approvalId, 'approve');
    // Ada's answer is as young as that of Ben, who came last.
    const again = await answer(ada, approvalId, 'undo');
    expect(again.body).toMatchObject({
      ...{ status: 'pending', resolved_by: null, answers: [{ user_id: ben.userId }] },
    });
    expect((await answer(cyd, approvalId, 'approve')).body.status).toBe('approved');
    const resolutions = (await recordsOf(approvalId, passportId)).map(
      (each: Reply['body']) => each.resolution,
    );
    expect(resolutions.reverse()).toEqual(['approved', 'voided', 'approved']);
  });

  it('by its author alone, and in time', async () => {
    const { approvalId } = await asked({ count: 2 });
    await answer(ada, approvalId, 'approve');
    expectError(await answer(ben, approvalId, 'undo'), 'approval_already_resolved');
    api.advance(approvalUndoMs);
    expectError(await answer(ada, approvalId, 'undo'), 'approval_already_resolved');
    await answer(ben, approvalId, 'approve');
    expectError(await answer(ada, approvalId, 'undo'), 'approval_already_resolved');
    expect((await answer(ben, approvalId, 'undo')).body.status).toBe('pending');
  });

  it('a denial is taken back by the person who denied', async () => {
    const { approvalId, gateId } = await asked({ count: 2 });
    await answer(ada, approvalId, 'approve');
    await answer(ben, approvalId, 'deny');
    expectError(await answer(ada, approvalId, 'undo'), 'approval_already_resolved');
    expect((await answer(ben, approvalId, 'undo')).body).toMatchObject({
      status: 'pending',
      answers: [{ user_id: ada.userId }],
    });
    expect(await heldUsd(api.deps, gateId)).toBe(25);
  });
});

describe('the list of what waits for me', () => {
  const waiting = async (person: LoggedIn | null, query = '') => {
    const url = `/v1/approvals?waiting_for=me&limit=200${query}`;
    const { status, body } = await (person === null ? api.call({ url }) : as(person, 'GET', url));
    expect(status).toBe(200);
    return new Set(body.items.map((each: Reply['body']) => each.approval_id));
  };

  it('has what this caller may answer and has not', async () => {
    const all = {
      plain: (await asked({ not_requester: false })).approvalId,
      two: (await asked({ count: 2 })).approvalId,
      ben: (await asked({ users: [ben.userId] })).approvalId,
      admins: (await asked({ roles: ['admin'] })).approvalId,
    };
    const gate = await api.createGate({ constraints: { approvals: { above_usd: 10 } } });
    const { passport_id: passportId } = await api.issuePassport();
    const open = (await askApproval(api.deps, { gateId: gate.gate_id, passportId })).approvalId;
    const named = async (person: LoggedIn | null) => {
      const found = await waiting(person);
      const ids = { ...all, open };
      const names = Object.entries(ids).filter(([, id]) => found.has(id));
      for (const [name, id] of Object.entries(ids)) {
        const { you } = await get(id, person ?? undefined);
        expect([name, you.may_answer]).toEqual([name, found.has(id)]);
      }
      return names.map(([name]) => name);
    };
    expect(await named(ada)).toEqual(['plain', 'two', 'open']);
    expect(await named(ben)).toEqual(['plain', 'two', 'ben', 'open']);
    expect(await named(cyd)).toEqual(['plain', 'two', 'admins', 'open']);
    expect(await named(null)).toEqual(['open']);
    expect(await waiting(await api.createUser({ role: 'auditor' }))).toEqual(new Set());
    await answer(ada, all.two, 'approve');
    expect(await named(ada)).toEqual(['plain', 'open']);
    await answer(ada, all.two, 'undo');
    expect(await named(ada)).toEqual(['plain', 'two', 'open']);
    const own = await as(cyd, 'POST', '/v1/passports', {
      agent_id: 'cyd-waits',
      permissions: ['orders:create'],
    });
    const gate2 = await gateWith({});
    const mine = await askApproval(api.deps, { gateId: gate2.gate_id, passportId: own.body.passport_id });
    expect((await waiting(cyd)).has(mine.approvalId)).toBe(false);
    expect((await waiting(ada)).has(mine.approvalId)).toBe(true);
  });

  it('is of pending ones alone', async () => {
    const reply = await api.call({ url: '/v1/approvals?waiting_for=me&status=denied' });
    expectError(reply, 'invalid_request', 'waiting_for');
    expectError(await api.call({ url: '/v1/approvals?waiting_for=you' }), 'invalid_request', 'waiting_for');
  });
});

it('is held by the database, beside a replica that knows no approvers', async () => {
  const { approvalId } = await asked({});
  const nowMs = api.deps.clock.now();
  const resolving = api.deps.sql`
    UPDATE approvals SET status = 'approved', resolved_at_ms = ${nowMs}, resolved_by = 'key_of_the_version_before'
    WHERE approval_id = ${approvalId}`;
  await expect(resolving).rejects.toThrow(/answered by people whom its gate names/);
  expect((await get(approvalId)).status).toBe('pending');
});
