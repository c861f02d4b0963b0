import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type SidecarPair, startSidecarPair } from '../support/service/sidecar-pair.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useStarted } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create', amount: 4 };
let keys = 0;
const newKey = () => `order-${++keys}`;

describe('a request with an idempotency key', () => {
  const pair = useStarted(startSidecarPair);

  const check: SidecarPair['check'] = (...asked) => pair.check(...asked);

  /** Without those that were voided: on a busy machine an answer may come too late, and is decided again. */
  const permitsOf = async (gateId: string): Promise<number> => {
    const { body } = await pair.api.call({ url: `/v1/attestations?gate_id=${gateId}&limit=500` });
    const records = body.attestations as {
      readonly id: string;
      readonly decision: string;
      readonly resolution: string | null;
      readonly refers_to: string | null;
    }[];
    const voided = new Set(records.flatMap(({ refers_to }) => refers_to ?? []));
    return records.filter(
      ({ id, decision, resolution }) => decision === 'PERMIT' && resolution === null && !voided.has(id),
    ).length;
  };

  it('is answered the first PERMIT again at every sidecar, is charged once, and also after the window is used up', async () => {
    const gate = { rate_limits: { requests_per_day: 2 }, spend_limits: { daily_usd: 10 } };
    const { gateId, token } = await pair.setUp({ gate });
    const request = { ...order, idempotency_key: newKey() };
    const first = await check(0, gateId, token, request);
    expect(first.body).toMatchObject({ decision: 'PERMIT', reason: null });
    expect(await pair.attestation(first.body.attestation_id)).toMatchObject({
      decision: 'PERMIT',
      amount_micro_usd: 4_000_000,
    });
    for (const i of [1, 0]) expect((await check(i, gateId, token, request)).body).toEqual(first.body);
    // Another one uses up what is left, at once: the replay takes nothing and leases nothing.
    const other = { ...order, amount: 6, idempotency_key: newKey() };
    expect((await check(0, gateId, token, other)).body.decision).toBe('PERMIT');
    expect((await check(1, gateId, token, order)).body.decision).toBe('BLOCK');
    for (const i of [0, 1]) expect((await check(i, gateId, token, request)).body).toEqual(first.body);
    expect(await permitsOf(gateId)).toBe(2);
  });

  it.each(['served', 'failed'])(
    'is answered its hold again at every program, once it has %s',
    async (outcome) => {
      const { gateId, token } = await pair.setUp({ gate: { spend_limits: { daily_usd: 10 } } });
      const request = { ...order, amount: 6, hold: true, idempotency_key: newKey() };
      const first = await check(0, gateId, token, request);
      expect(first.body).toMatchObject({ decision: 'PERMIT', hold: { amount_usd: 6 } });
      const url = `/v1/attestations/${first.body.attestation_id}/outcome`;
      const report = outcome === 'served' ? { outcome, amount: 1 } : { outcome };
      expect((await pair.api.call({ url, body: report })).status).toBe(200);
      for (const i of [0, 1]) expect((await check(i, gateId, token, request)).body).toEqual(first.body);
      const copy = { url: `/v1/gates/${gateId}/check`, body: { passport: token, request } };
      expect((await pair.api.call(copy)).body).toEqual(first.body);
    },
  );

  it('is answered the first PERMIT while others still wait for theirs', async () => {
    const { gateId, token } = await pair.setUp({ gate: {} });
    const request = { ...order, idempotency_key: newKey() };
    const first = await check(0, gateId, token, request);
    const copy = await pair.api.deps.sql.reserve();
    try {
      // Another copy that has found the first PERMIT, and has not ended yet.
      await copy`BEGIN`;
      const keyHash = sha256Hex(request.idempotency_key);
      await copy`SELECT FROM settlements WHERE key_hash = ${keyHash} FOR SHARE`;
      expect((await check(1, gateId, token, request)).body).toEqual(first.body);
    } finally {
      await copy`ROLLBACK`;
      copy.release();
    }
  });

  it.each(['another sidecar', 'the control plane'])(
    'waits for an in-flight duplicate instead of failing on the limit that it is using up, at %s',
    async (place) => {
      const { api } = pair;
      const { gateId, token } = await pair.setUp({ gate: { rate_limits: { requests_per_day: 1 } } });
      const request = { ...order, idempotency_key: newKey() };
      const waiting = (count: number) =>
        until(async () => (await waitingForLocks(api.deps.sql)) >= count, { what: `${count} that wait` });
      const ask = () =>
        place === 'another sidecar'
          ? pair.sidecars[1].check(gateId, token, request)
          : api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: token, request } });
      const first = await pair.whileLocked('settlements', async () => {
        const reply = check(0, gateId, token, request);
        await waiting(1);
        // The limit is not final while the first copy may still use its last unit, or give it back.
        const copy = await ask();
        expectError(copy, 'overloaded');
        expect(copy.headers['retry-after']).toBe('1');
        return { reply };
      });
      const permitted = await first.reply;
      expect(permitted.body).toMatchObject({ decision: 'PERMIT' });
      const copy = await untilAnswer(ask, ({ status }) => status !== 503, { what: 'an answer to the copy' });
      expect(copy.body).toEqual(permitted.body);
      expect(await permitsOf(gateId)).toBe(1);
    },
  );

  it('of a revoked passport is blocked, despite an earlier PERMIT', async () => {
    const { gateId, token, passport } = await pair.setUp({ gate: {} });
    const request = { ...order, idempotency_key: newKey() };
    expect((await check(0, gateId, token, request)).body.decision).toBe('PERMIT');
    await pair.revoke(passport.passport_id);
    for (const i of [0, 1]) {
      expect((await check(i, gateId, token, request)).body.reason).toBe('passport_revoked');
    }
  });

  describe('with an outcome that is not known in time', () => {
    it('is 503, and is voided if it commits after that: a retry is decided again', async () => {
      const { gateId, token, passport } = await pair.setUp({
        gate: { rate_limits: { requests_per_day: 2 } },
      });
      const request = { ...order, idempotency_key: newKey() };
      const { random, clock, sql } = pair.api.deps;
      const sinceId = random.newId('att', clock.now());
      // Leased already, so that the settlement alone has to wait.
      expect((await check(0, gateId, token, order)).body.decision).toBe('PERMIT');
      await pair.whileLocked('settlements', async () => {
        const reply = await pair.sidecars[0].check(gateId, token, request);
        expectError(reply, 'overloaded');
        expect(reply.headers['retry-after']).toBe('1');
      });
      // Either the settlement came after its void, or its PERMIT has a record after it that voids it.
      const records = async () => {
        const url = `/v1/attestations?passport_id=${passport.passport_id}&limit=500`;
        return (await pair.api.call({ url })).body.attestations as {
          id: string;
          decision: string;
          resolution: string | null;
          refers_to: string | null;
        }[];
      };
      const isVoid = async () =>
        (await sql`SELECT FROM settlements WHERE is_void AND settlement_id > ${sinceId}`).length > 0;
      await until(isVoid, { what: 'the void of the settlement' });
      let retry = await check(1, gateId, token, request);
      expect(retry.body.decision).toBe('PERMIT');
      expect((await check(1, gateId, token, request)).body).toEqual(retry.body);
      const all = await records();
      const voided = new Set(all.flatMap(({ refers_to }) => refers_to ?? []));
      const standing = all.filter(({ id, resolution }) => resolution === null && !voided.has(id));
      expect(standing.map(({ decision }) => decision)).toEqual(['PERMIT', 'PERMIT']);
      expect(voided.has(retry.body.attestation_id)).toBe(false);
      retry = await pair.check(0, gateId, token, order);
      expect(retry.body.reason).toBe('rate_limit_exceeded');
    });

    it('costs nothing if the call never arrived', async () => {
      const { gateId, token } = await pair.setUp({ gate: { spend_limits: { daily_usd: 10 } } });
      const [sidecar] = pair.sidecars;
      const request = { ...order, amount: 10, idempotency_key: newKey() };
      sidecar.link.cut();
      expect((await sidecar.check(gateId, token, request)).body.reason).toBe('quota_unavailable');
      // Meanwhile the key goes to somebody else, at the other sidecar.
      const elsewhere = { ...order, amount: 3, idempotency_key: request.idempotency_key };
      expect((await check(1, gateId, token, elsewhere)).body.decision).toBe('PERMIT');
      sidecar.link.restore();
      await pair.caughtUp();
      expectError(await check(0, gateId, token, request), 'idempotency_conflict');
      await until(
        async () => (await check(0, gateId, token, { ...order, amount: 7 })).body.decision === 'PERMIT',
        { what: 'the rest of the money' },
      );
    });
  });

  it('leaves a sound store behind', async () => {
    await expectSoundStore(pair.api);
  });
});
