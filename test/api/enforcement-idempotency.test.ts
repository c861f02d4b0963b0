import { beforeAll, describe, expect, it } from 'vitest';
import { decisionsLimits } from '../../control-plane/decisions/limits.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { hourMs } from '../../shared/model/time.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, heldUsd } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const other = useStarted(() => secondControlPlane(api));
beforeAll(() => goToNoon(api));

const order = { permission_key: 'orders:create', amount: 10 };
const keyed = (key: string, change: object = {}) => ({ ...order, idempotency_key: key, ...change });
const check = (gateId: string, passport: string, request: object): Promise<Reply> =>
  api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
const gateWith = async (constraints: object = { spend_limits: { daily_usd: 100 } }): Promise<string> =>
  (await api.createGate({ constraints })).gate_id;

describe('request.idempotency_key', () => {
  it('repeats the findings of the first answer, member by member', async () => {
    const gateId = await gateWith({ pii_controls: { mode: 'log_only' } });
    const { jwt } = await api.issuePassport();
    const request = keyed('a', { note: 'jane@example.org' });
    const [first, second] = [await check(gateId, jwt, request), await check(gateId, jwt, request)];
    expect(first.body.pii).toEqual([{ pointer: '/note', type: 'email' }]);
    expect(JSON.stringify(second.body)).toBe(JSON.stringify(first.body));
  });

  it('is the passport’s own, at this gate: another passport, another gate and /enforce have theirs', async () => {
    const [here, there] = [await gateWith(), await gateWith()];
    const [one, two] = [await api.issuePassport(), await api.issuePassport()];
    const enforce = (passport: string) =>
      api.call({ url: '/v1/enforce', body: { passport, request: keyed('a') } });
    const replies = [
      await check(here, one.jwt, keyed('a')),
      await check(there, one.jwt, keyed('a')),
      await check(here, two.jwt, keyed('a')),
      await enforce(one.jwt),
    ];
    for (const { body } of replies) expect(body.decision).toBe('PERMIT');
    expect(new Set(replies.map(({ body }) => body.attestation_id)).size).toBe(4);
    expect((await enforce(one.jwt)).body).toEqual(replies[3]?.body);
    expect(await heldUsd(api.deps, here)).toBe(20);
  });

  it('of a BLOCK is free for the next try', async () => {
    const gateId = await gateWith();
    const { jwt } = await api.issuePassport();
    const wanted = keyed('a', { amount: 101 });
    expect((await check(gateId, jwt, wanted)).body.reason).toBe('spend_limit_exceeded');
    await api.call({
      method: 'PUT',
      url: `/v1/gates/${gateId}`,
      body: { constraints: { spend_limits: { daily_usd: 200 } } },
    });
    expect((await check(gateId, jwt, wanted)).body.decision).toBe('PERMIT');
  });

  it('answers the first PERMIT again also where its own charge has used up the limit', async () => {
    const money = await gateWith({ spend_limits: { daily_usd: 10 } });
    const rate = await gateWith({ rate_limits: { requests_per_day: 1 } });
    const { jwt } = await api.issuePassport();
    for (const gateId of [money, rate]) {
      const first = await check(gateId, jwt, keyed('a'));
      expect((await check(gateId, jwt, keyed('a'))).body).toEqual(first.body);
      expect((await check(gateId, jwt, keyed('b'))).body.decision).toBe('BLOCK');
      expectError(await check(gateId, jwt, keyed('a', { amount: 9 })), 'idempotency_conflict');
    }
  });

  it('answers the first PERMIT again also where the limit has room for one more, and no two', async () => {
    const money = await gateWith({ spend_limits: { daily_usd: 20 } });
    const rate = await gateWith({ rate_limits: { requests_per_day: 2 } });
    const { jwt } = await api.issuePassport();
    for (const gateId of [money, rate]) {
      const first = await check(gateId, jwt, keyed('a'));
      expect((await check(gateId, jwt, keyed('a'))).body).toEqual(first.body);
      expect((await check(gateId, jwt, keyed('b'))).body.decision).toBe('PERMIT');
    }
  });

  it('lets no revoked or suspended passport replay', async () => {
    const gateId = await gateWith();
    const { jwt, passport_id: passportId } = await api.issuePassport();
    const first = await check(gateId, jwt, keyed('a'));
    const set = (word: string) => api.call({ url: `/v1/passports/${passportId}/${word}`, body: {} });
    await set('suspend');
    expect((await check(gateId, jwt, keyed('a'))).body.reason).toBe('passport_suspended');
    await set('reactivate');
    expect((await check(gateId, jwt, keyed('a'))).body).toEqual(first.body);
    await set('revoke');
    expect((await check(gateId, jwt, keyed('a'))).body.reason).toBe('passport_revoked');
  });

  it('is kept for 24 hours and then means a new request, whether or not it was removed', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_minute: 1_000 } });
    const { jwt, passport_id: passportId } = await api.issuePassport();
    const first = await check(gateId, jwt, keyed('a'));
    api.advance(decisionsLimits.permitKeyKeptMs - hourMs);
    expect((await check(gateId, jwt, keyed('a'))).body).toEqual(first.body);
    api.advance(hourMs);
    const next = await check(gateId, jwt, keyed('a', { amount: 11 }));
    expect(next.body).toMatchObject({ decision: 'PERMIT' });
    expect(next.body.attestation_id).not.toBe(first.body.attestation_id);
    expectError(await check(gateId, jwt, keyed('a')), 'idempotency_conflict');
    api.advance(decisionsLimits.permitKeyKeptMs + 2 * hourMs);
    // Each new claim removes some: those of the tests before this one are older.
    for (const key of ['b', 'c', 'd']) await check(gateId, jwt, keyed(key));
    const rows = await api.deps.sql`SELECT key_hash FROM settlements WHERE passport_id = ${passportId}`;
    // A key may hold what nobody should keep: only its hash is stored.
    expect(new Set(rows.map(({ key_hash }) => key_hash))).toEqual(new Set(['b', 'c', 'd'].map(sha256Hex)));
  });

  it('is charged once by 40 copies at once on two control planes', async () => {
    const gateId = await gateWith();
    const { jwt } = await api.issuePassport();
    const url = `/v1/gates/${gateId}/check`;
    const body = { passport: jwt, request: keyed('a') };
    const replies = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        index % 2 === 0 ? api.call({ url, body }) : other.call(url, body),
      ),
    );
    const [first] = replies;
    expect(first?.body.decision).toBe('PERMIT');
    for (const reply of replies) expect(reply.body).toEqual(first?.body);
    expect(await heldUsd(api.deps, gateId)).toBe(10);
    await expectSoundStore(api);
  });

  it('goes to one of two requests at once, and the other is a conflict', async () => {
    const gateId = await gateWith();
    const { jwt } = await api.issuePassport();
    const replies = await Promise.all([
      check(gateId, jwt, keyed('a', { amount: 10 })),
      other.call(`/v1/gates/${gateId}/check`, { passport: jwt, request: keyed('a', { amount: 20 }) }),
    ]);
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409]);
    const winner = replies[0].status === 200 ? 10 : 20;
    expect(await heldUsd(api.deps, gateId)).toBe(winner);
  });

  it('in a gate test neither claims nor replays', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10 } });
    const { jwt } = await api.issuePassport();
    const test = async () =>
      (
        await api.call({
          url: `/v1/gates/${gateId}/test`,
          body: { passport_token: jwt, context: keyed('a') },
        })
      ).body;
    expect((await test()).decision).toBe('allow');
    const first = await check(gateId, jwt, keyed('a'));
    expect(first.body.decision).toBe('PERMIT');
    expect(await test()).toMatchObject({ decision: 'block', reason: 'spend_limit_exceeded' });
  });
});
