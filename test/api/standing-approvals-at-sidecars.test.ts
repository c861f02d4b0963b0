import { beforeAll, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { GateId, StandingApprovalId } from '../../shared/model/ids.ts';
import { hourMs, renderTime, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import type { LeaseCounter } from '../../shared/wire/sync/lease-call.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { leaseHolder, wish } from '../support/service/lease-holder.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import {
  approveAhead,
  askingRules,
  endStanding,
  givenOf,
  order,
  standingApprovalOf,
} from '../support/service/standing-approvals.ts';
import { expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
const sidecars = [1, 2, 3].map(() => useSidecar(() => ({ api, quotaWaitMs: 1_000 })));
const caughtUp = async () => {
  for (const sidecar of sidecars) await sidecar.caughtUp();
};

/** A gate that asks, a passport, and what is approved ahead there; all sidecars know. */
async function standing(
  change: object = {},
  { gate = askingRules as object, passport: body = {} as object } = {},
) {
  const gateId: GateId = (await api.createGate({ constraints: gate })).gate_id;
  const passport = await api.issuePassport(body);
  const made = await approveAhead(api, { gate_id: gateId, passport_id: passport.passport_id, ...change });
  await caughtUp();
  const id: StandingApprovalId = made.standing_approval_id;
  const at = (i: number) => sidecars[i % sidecars.length] as TestSidecar;
  /** Asks again while it is told to. */
  const ask = (i: number, amount: number, rest: object = {}): Promise<Reply> =>
    untilAnswer(
      () => at(i).check(gateId, passport.jwt, order(amount, rest)),
      (reply) => !isPassing(reply),
      { what: 'an answer that stays' },
    );
  return { gateId, passport, id, ask, at };
}

/** Once every record has arrived: what was permitted is what is used, and no unit more. */
const usedIs = (id: string, usd: number) =>
  until(
    async () => {
      const { used_usd, leased_usd } = await standingApprovalOf(api, id);
      return used_usd === usd && leased_usd === 0;
    },
    { what: `${usd} USD used and nothing leased` },
  );

/** Records that name it. */
async function namedBy(id: string): Promise<number> {
  const rows = await api.deps.sql`SELECT FROM records WHERE approval_id = ${id}`;
  return rows.count;
}

describe('a standing approval at sidecars', () => {
  it('permits exactly its total over three sidecars that race for more', async () => {
    const { ask, id } = await standing({ each_usd: 3, total_usd: 60 });
    const replies = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(i, 3, { n: i })));
    const count = (decision: string) => replies.filter(({ body }) => body.decision === decision).length;
    expect([count('PERMIT'), count('SUSPEND')]).toEqual([20, 40]);
    await usedIs(id, 60);
    expect(await givenOf(api, id)).toBe(60e6);
    expect(await namedBy(id)).toBe(20);
  });

  it('ends everywhere with the answer to DELETE, also for who holds units of it', async () => {
    const { ask, id } = await standing();
    expect((await ask(0, 5)).body.decision).toBe('PERMIT');
    expect((await endStanding(api, id)).status).toBe(200);
    await caughtUp();
    for (const i of [0, 1, 2]) expect((await ask(i, 5, { n: i })).body.decision).toBe('SUSPEND');
    await usedIs(id, 5);
  });

  it('is used or ended, where both happen at once, and counted as it was used', async () => {
    const { ask, id } = await standing({ each_usd: 2, total_usd: 40 });
    const uses = Array.from({ length: 24 }, (_, i) =>
      ask(i, 2, { n: i, ...(i % 2 === 0 && { idempotency_key: `k${i}` }) }),
    );
    const ended = endStanding(api, id);
    const replies = await Promise.all(uses);
    expect((await ended).body.status).toBe('revoked');
    const permits = replies.filter(({ body }) => body.decision === 'PERMIT').length;
    expect(replies.filter(({ body }) => body.decision === 'SUSPEND')).toHaveLength(24 - permits);
    await usedIs(id, 2 * permits);
    await caughtUp();
    expect((await ask(0, 2)).body.decision).toBe('SUSPEND');
  });

  it('is known to a sidecar that starts later, from its snapshot, and forgotten by none that restarts', async () => {
    const { gateId, passport, id } = await standing();
    const late = await startTestSidecar({ api, quotaWaitMs: 1_000 });
    const check = async (sidecar: TestSidecar, n: number) => {
      const ask = () => sidecar.check(gateId, passport.jwt, order(5, { n }));
      return (await untilAnswer(ask, (reply) => !isPassing(reply), { what: 'an answer' })).body.decision;
    };
    await late.caughtUp();
    expect(await check(late, 1)).toBe('PERMIT');
    await late.close();
    const again = await startTestSidecar({ api, quotaWaitMs: 1_000, folder: late.folder });
    await again.caughtUp();
    expect(await check(again, 2)).toBe('PERMIT');
    await again.close();
    again.removeFolder();
    await usedIs(id, 10);
  });

  it('is over at its time, whatever the clock of the machine shows', async () => {
    // So near that its records are of no time too far ahead of the control plane.
    const expiresAt = renderTime((api.deps.clock.now() + 50 * secondMs) as UnixMillis);
    const { ask, at, id } = await standing({ expires_at: expiresAt });
    expect((await ask(0, 5)).body.decision).toBe('PERMIT');
    const end = Date.parse((await standingApprovalOf(api, id)).expires_at);
    try {
      at(0).stopMachineClockAt(end - 24 * hourMs);
      at(0).stopClockAt(end - 1);
      expect((await ask(0, 5, { n: 1 })).body.decision).toBe('PERMIT');
      at(0).stopClockAt(end);
      // It may hold units of it, and takes none of them.
      expect((await ask(0, 5, { n: 2 })).body.decision).toBe('SUSPEND');
      at(0).stopMachineClockAt(end + 24 * hourMs);
      at(0).stopClockAt(end - 1);
      expect((await ask(0, 5, { n: 3 })).body.decision).toBe('PERMIT');
    } finally {
      at(0).resume();
    }
    await usedIs(id, 15);
  });

  it('is used by a settlement only while it is in force', async () => {
    const { gateId, passport, id } = await standing();
    const holder = await leaseHolder(api);
    const [grant] = await holder.lease([wish(counterOf(gateId, id), 'total', 5e6)]);
    await endStanding(api, id);
    const answer = await settle(holder, { gateId, passport, took: [grant?.lease_id ?? 0], amount: 5e6 });
    expect(answer).toMatchObject({ kind: 'refused', is_passing: true });
    expect(await givenOf(api, id)).toBe(5e6);
    await holder.lease(
      [],
      [{ ...counterOf(gateId, id), window: 'total', starts_at_ms: 0 as never, units: 5e6 }],
    );
    expect(await givenOf(api, id)).toBe(0);
  });
});

const counterOf = (gateId: GateId, id: StandingApprovalId): LeaseCounter => ({
  kind: 'standing_approval',
  gate_id: gateId,
  passport_id: null,
  token_hash: null,
  standing_approval_id: id,
});

/** A keyed PERMIT of that holder; the answer. */
async function settle(
  holder: Awaited<ReturnType<typeof leaseHolder>>,
  about: {
    readonly gateId: GateId;
    readonly passport: Reply['body'];
    readonly took: readonly number[];
    readonly amount: number;
    readonly attestationId?: string;
  },
): Promise<Reply['body']> {
  const { gateId, passport, took, amount, attestationId } = about;
  const checks = ['passport', 'trust_level', 'issuer', 'permission', 'approval'];
  const record = recordOf(
    api,
    { gateId, passport },
    {
      took,
      amount_micro_usd: amount,
      constraints_evaluated: checks,
      ...(attestationId === undefined ? {} : { id: attestationId }),
    },
  );
  const reply = await api.call({
    url: '/v1/sync/settlements',
    key: holder.sidecar.key,
    body: {
      sidecar_id: holder.sidecar.sidecarId,
      connection_id: holder.sidecar.connectionId,
      holder: holder.holder,
      settlements: [
        {
          kind: 'permit',
          wanted_ms: 1_000,
          passport_id: passport.passport_id,
          token_hash: sha256Hex(passport.jwt),
          gate_id: gateId,
          gate_version: 1,
          request_hash: record.request_hash,
          idempotency_key: record.id,
          reader_id: api.deps.random.newId('att', api.deps.clock.now()),
          record,
          approval_id: null,
        },
      ],
    },
  });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body.answers[0];
}

describe('a lying holder', () => {
  it('of another account draws nothing of a standing approval, though it has seen the passport', async () => {
    const { gateId, id } = await standing();
    const { key } = await api.createAccount();
    const foreign = await leaseHolder(api, { key });
    const [grant] = await foreign.lease([wish(counterOf(gateId, id), 'total', 5e6)]);
    expect(grant).toMatchObject({ granted: 0, limit: 0 });
    expect(grant?.lease_id).toBeUndefined();
    expect(await givenOf(api, id)).toBe(0);
  });

  it('opens no window for what does not exist, and is given nothing under another gate', async () => {
    const { id } = await standing();
    const holder = await leaseHolder(api);
    const elsewhere: GateId = (await api.createGate({ constraints: askingRules })).gate_id;
    const made = api.deps.random.newId('sappr', api.deps.clock.now());
    const grants = await holder.lease([
      wish(counterOf(elsewhere, id), 'total', 5e6),
      wish(counterOf(elsewhere, made), 'total', 5e6),
    ]);
    expect(grants).toMatchObject([{ granted: 0 }, { granted: 0 }]);
    const rows = await api.deps
      .sql`SELECT FROM quota_windows WHERE counter LIKE ${`gate_spend:${elsewhere}:%`}`;
    expect(rows).toEqual([]);
  });

  it('settles nothing beyond each, for another passport, or beyond its lease', async () => {
    const { gateId, passport, id } = await standing();
    const holder = await leaseHolder(api);
    const [grant] = await holder.lease([wish(counterOf(gateId, id), 'total', 12e6)]);
    const took = [grant?.lease_id ?? 0];
    const stranger = await api.issuePassport();
    const refusal = {
      kind: 'refused',
      message: 'took names a standing approval that is not for this request',
    };
    expect(await settle(holder, { gateId, passport, took, amount: 10e6 + 1 })).toMatchObject(refusal);
    expect(await settle(holder, { gateId, passport: stranger, took, amount: 5e6 })).toMatchObject(refusal);
    expect(await settle(holder, { gateId, passport, took, amount: 10e6 })).toEqual({ kind: 'committed' });
    expect(await settle(holder, { gateId, passport, took, amount: 3e6 })).toMatchObject({
      kind: 'refused',
      message: 'took is more than a lease has left',
    });
    expect(await givenOf(api, id)).toBe(12e6);
    await holder.lease(
      [],
      [{ ...counterOf(gateId, id), window: 'total', starts_at_ms: 0 as never, units: 12e6 }],
    );
    expect(await givenOf(api, id)).toBe(10e6);
  });

  it('settles nothing for a passport of another owner, or of another account', async () => {
    const { gateId } = await standing();
    const { standing_approval_id: id } = await approveAhead(api, { gate_id: gateId, owner: 'red' });
    const holder = await leaseHolder(api);
    const [grant] = await holder.lease([wish(counterOf(gateId, id), 'total', 12e6)]);
    const about = { gateId, took: [grant?.lease_id ?? 0], amount: 4e6 };
    const { key } = await api.createAccount();
    const refusal = {
      kind: 'refused',
      message: 'took names a standing approval that is not for this request',
    };
    for (const passport of [
      await api.issuePassport(),
      await api.issuePassport({ owner: 'blue' }),
      await api.issuePassport({ owner: 'red' }, key),
    ])
      expect(await settle(holder, { ...about, passport })).toMatchObject(refusal);
    const passport = await api.issuePassport({ owner: 'red' });
    expect(await settle(holder, { ...about, passport })).toEqual({ kind: 'committed' });
    expect(await standingApprovalOf(api, id)).toMatchObject({ used_usd: 4, leased_usd: 8 });
  });

  it('of a passport with a rule of its own needs a standing approval, or one that was given', async () => {
    const own = { constraints: { approvals: { permissions: ['orders:create'] } } };
    const { gateId, passport, id } = await standing(
      {},
      { gate: { spend_limits: { daily_usd: 50 } }, passport: own },
    );
    const holder = await leaseHolder(api);
    const spend = { kind: 'gate_spend', gate_id: gateId, passport_id: null, token_hash: null } as const;
    const [money, lane] = await holder.lease([
      wish(spend, 'day', 10e6),
      wish(counterOf(gateId, id), 'total', 5e6),
    ]);
    const missing = { kind: 'refused', message: 'an approval that passport_id asks for is missing' };
    const about = { gateId, passport, amount: 5e6 };
    expect(await settle(holder, { ...about, took: [money?.lease_id ?? 0] })).toMatchObject(missing);
    const took = [money?.lease_id ?? 0, lane?.lease_id ?? 0];
    expect(await settle(holder, { ...about, took })).toEqual({ kind: 'committed' });
    const record = recordOf(api, { gateId, passport }, { took: [money?.lease_id ?? 0], amount_micro_usd: 1 });
    const shipped = await holder.sidecar.send(1, [
      { ...record, constraints_evaluated: [...record.constraints_evaluated, 'approval'] },
    ]);
    expect(shipped.status).toBe(400);
    expect(JSON.stringify(shipped.body)).toContain('an approval that passport_id asks for is missing');
  });

  it('has its counter said in one way', async () => {
    const { gateId, id } = await standing();
    const holder = await leaseHolder(api);
    const lane = counterOf(gateId, id);
    const { standing_approval_id: _id, ...nameless } = lane;
    for (const ask of [
      wish(lane, 'day', 1),
      wish({ ...lane, gate_id: null }, 'total', 1),
      wish(nameless, 'total', 1),
      wish({ ...lane, kind: 'gate_spend' }, 'total', 1),
      wish({ ...lane, kind: 'gate_spend', standing_approval_id: undefined as never }, 'total', 1),
    ]) {
      const seq = 1;
      expect((await holder.call([ask], [], { seq })).status, JSON.stringify(ask)).toBe(400);
    }
  });
});

it('leaves a sound store behind', async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});
