import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { consumeApproval } from '../../control-plane/approvals/consume-approval.ts';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import type { GateId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { asListed, goToNoon, hashOf, openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
/** Of an account that has nothing before the test. */
let key: string;
beforeAll(() => goToNoon(api));
beforeEach(async () => {
  ({ key } = await api.createAccount());
});

const open = (wanted: Parameters<typeof openAnApproval>[1] = {}) => openAnApproval(api, { key, ...wanted });
const list = async (query = '', as = key): Promise<Reply['body']> =>
  (await api.call({ url: `/v1/approvals${query}`, key: as })).body;
const get = async (id: string, as = key) => {
  const reply = await api.call({ url: `/v1/approvals/${id}`, key: as });
  return { ...reply, body: asListed(reply.body) };
};
const resolve = (id: string, word: 'approve' | 'deny', body: unknown = {}, as = key) =>
  api.call({ url: `/v1/approvals/${id}/${word}`, body, key: as });
const idsOf = (page: Reply['body']): string[] =>
  page.items.map(({ approval_id }: { approval_id: string }) => approval_id);
const useIt = (opened: Awaited<ReturnType<typeof open>>, requestHash: string) => {
  const nowMs = api.deps.clock.now();
  const binding = {
    ...{ passportId: opened.passportId as PassportId, gateId: opened.gateId as GateId, gateVersion: 1 },
    tokenUser: '',
    requestHash,
  };
  return api.deps.sql.begin((tx) =>
    consumeApproval(tx, opened.approvalId, binding, api.deps.random.newId('att', nowMs), nowMs),
  );
};

describe('GET /approvals/:id', () => {
  it('answers the whole approval, with its money in dollars', async () => {
    const passport = await api.issuePassport({ agent_id: 'buyer-1' }, key);
    const opened = await open({
      ...{ passportId: passport.passport_id, amountUsd: 12.345678, requestHash: hashOf(0xabc) },
      expiresInMs: 60_000,
    });
    const { status, body } = await get(opened.approvalId);
    expect(status).toBe(200);
    expect(body).toEqual({
      approval_id: opened.approvalId,
      approval_url: `http://127.0.0.1:8080/console/approvals/${opened.approvalId}`,
      ...{ approval_api_url: `http://127.0.0.1:8080/v1/approvals/${opened.approvalId}`, display: null },
      ...{ status: 'pending', passport_id: passport.passport_id, agent_id: 'buyer-1', user: null },
      ...{ answers: [], condition: null },
      ...{ gate_id: opened.gateId, request_hash: hashOf(0xabc), permission_key: 'orders:create' },
      ...{ amount_usd: 12.345678, created_at: expect.stringMatching(/\.\d{3}Z$/) },
      ...{ expires_at: new Date(opened.expiresAtMs).toISOString(), resolved_at: null, resolved_by: null },
      note: null,
    });
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(60_000);
  });

  it('404: an approval of another account, or of the other mode', async () => {
    const { approvalId } = await open();
    const other = await api.createAccount();
    const testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' }, key)).key;
    for (const stranger of [other.key, testKey, api.adminKey]) {
      expectError(await get(approvalId, stranger), 'approval_not_found');
      expectError(await resolve(approvalId, 'approve', {}, stranger), 'approval_not_found');
      expectError(await resolve(approvalId, 'deny', {}, stranger), 'approval_not_found');
      expect(await list('', stranger)).toMatchObject({ items: [], total: 0 });
    }
    expect((await get(approvalId)).body.status).toBe('pending');
  });

  it('belongs to the account of the gate, not to that of the passport', async () => {
    const visitor = await api.createAccount();
    const { passport_id } = await api.issuePassport({}, visitor.key);
    const { approvalId } = await open({ passportId: passport_id });
    expect((await get(approvalId)).body.passport_id).toBe(passport_id);
    expectError(await get(approvalId, visitor.key), 'approval_not_found');
    expectError(await resolve(approvalId, 'approve', {}, visitor.key), 'approval_not_found');
  });
});

describe('GET /approvals', () => {
  it('filters by the status of that moment, written or not', async () => {
    const hash = hashOf(0xd00d);
    const denied = await open();
    await resolve(denied.approvalId, 'deny', { note: null });
    const used = await open({ requestHash: hash });
    await resolve(used.approvalId, 'approve');
    expect(await useIt(used, hash)).toBe('consumed');
    const longGone = await open({ expiresInMs: 1_000 });
    api.advance(1_000);
    await expireApprovals(api.deps);
    const unresolved = await open({ expiresInMs: 1_000 });
    const unused = await open({ expiresInMs: 1_000 });
    await resolve(unused.approvalId, 'approve');
    api.advance(1_000);
    const approved = await open();
    await resolve(approved.approvalId, 'approve');
    const pending = await open();

    const idsWith = async (status: string): Promise<string[]> => {
      const page = await list(`?status=${status}`);
      expect(page.total).toBe(page.items.length);
      for (const item of page.items) expect(item.status).toBe(status);
      return idsOf(page).toSorted();
    };
    expect(await idsWith('pending')).toEqual([pending.approvalId]);
    expect(await idsWith('approved')).toEqual([approved.approvalId]);
    expect(await idsWith('denied')).toEqual([denied.approvalId]);
    expect(await idsWith('used')).toEqual([used.approvalId]);
    const expired = [longGone, unresolved, unused].map(({ approvalId }) => approvalId).toSorted();
    expect(await idsWith('expired')).toEqual(expired);
    const before = await list();
    expect(before.total).toBe(7);
    // Newest first.
    const places = [pending, longGone].map(({ approvalId }) => idsOf(before).indexOf(approvalId));
    expect(places[0]).toBeLessThan(places[1] ?? 0);

    expect(await expireApprovals(api.deps)).toBe(2);
    expect(await list()).toEqual(before);
    expect(await idsWith('expired')).toEqual(expired);
  });

  it.each([
    ['status=resolved', 'status'],
    ['gate=x', 'gate'],
  ])('400: refuses ?%s', async (query, param) => {
    expectError(await api.call({ url: `/v1/approvals?${query}`, key }), 'invalid_request', param);
  });
});

describe('POST /approvals/:id/approve', () => {
  it('records author and time, and restarts expires_at with the same length', async () => {
    const { approvalId } = await open({ expiresInMs: 60_000 });
    const approver = await api.createKey({ scopes: ['approvals:resolve'] }, key);
    api.advance(40_000);
    const { status, body } = await resolve(approvalId, 'approve', { note: 'for Ms Okafor' }, approver.key);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      ...{ status: 'approved', resolved_by: approver.keyId, note: 'for Ms Okafor' },
      resolved_at: expect.stringMatching(/\.\d{3}Z$/),
    });
    expect(Date.parse(body.expires_at) - Date.parse(body.resolved_at)).toBe(60_000);
    expect((await get(approvalId)).body).toEqual(body);
    // Past the first end, not past the second.
    api.advance(30_000);
    expect((await get(approvalId)).body.status).toBe('approved');
    api.advance(30_000);
    expect((await get(approvalId)).body).toEqual({ ...body, status: 'expired' });
  });
});

describe.each(['approve', 'deny'] as const)('POST /approvals/:id/%s', (word) => {
  it.each([
    [{ note: 'x'.repeat(limits.reasonCharsMax + 1) }, 'note'],
    [{ note: 5 }, 'note'],
    [{ reason: 'a' }, 'reason'],
  ])('400: refuses %j, and resolves nothing', async (body, param) => {
    const { approvalId } = await open();
    expectError(await resolve(approvalId, word, body), 'invalid_request', param);
    expect((await get(approvalId)).body.status).toBe('pending');
  });

  it('409: for an approved, denied, used or expired one, and changes nothing', async () => {
    const hash = hashOf(word === 'approve' ? 0xe1 : 0xe2);
    const approved = await open();
    await resolve(approved.approvalId, 'approve');
    const denied = await open();
    await resolve(denied.approvalId, 'deny');
    const used = await open({ requestHash: hash });
    await resolve(used.approvalId, 'approve');
    await useIt(used, hash);
    const expired = await open({ expiresInMs: 1_000 });
    api.advance(1_000);
    for (const { approvalId } of [approved, denied, used, expired]) {
      const before = (await get(approvalId)).body;
      expectError(await resolve(approvalId, word, { note: 'second' }), 'approval_already_resolved');
      expect((await get(approvalId)).body).toEqual(before);
    }
  });
});

it('lets one of two concurrent resolvers win', async () => {
  for (let round = 0; round < 4; round++) {
    const { approvalId } = await open();
    const replies = await Promise.all([
      resolve(approvalId, 'approve', { note: 'yes' }),
      resolve(approvalId, 'deny', { note: 'no' }),
    ]);
    const [winner] = replies.filter(({ status }) => status === 200);
    const [loser] = replies.filter(({ status }) => status !== 200);
    expectError(loser as Reply, 'approval_already_resolved');
    expect((await get(approvalId)).body).toEqual(winner?.body);
  }
});
