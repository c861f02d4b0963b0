import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { dayMs, hourMs, minuteMs } from '../../shared/model/time.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { expectError } from '../support/expect-error.ts';
import { startTestEmbedded, startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { StreamClient } from '../support/stream-client.ts';
import { until } from '../support/until.ts';
import { makeWallet } from '../support/wallets.ts';

let api: Api;
let sidecar: TestSidecar;
beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  sidecar = await startTestSidecar({ api });
});
afterAll(async () => {
  await sidecar.close();
  sidecar.removeFolder();
  await api.close();
});

interface Shop {
  readonly gateId: string;
  readonly jwt: string;
  readonly passportId: string;
  /** What limits its money. */
  readonly counter: string;
}

const open = async (constraints: object = { spend_limits: { daily_usd: 100 } }): Promise<Shop> => {
  const gate = await api.createGate({ constraints });
  const { jwt, passport_id } = await api.issuePassport({ permissions: ['orders:create'] });
  await sidecar.caughtUp();
  const counter = `gate_spend:${gate.gate_id}`;
  return { gateId: gate.gate_id, jwt, passportId: passport_id, counter };
};
/** The gate limits nothing; a share that lies in two wallets does. */
const openWallet = async (): Promise<Shop> => {
  const limits = { daily_usd: 100 };
  const root = await makeWallet(api, { limits });
  const above = await makeWallet(api, { limits, parent_wallet_id: root.wallet_id });
  const share = await makeWallet(api, { limits, parent_wallet_id: above.wallet_id, share: 'reserved' });
  const gate = await api.createGate();
  const { jwt, passport_id } = await api.issuePassport({
    permissions: ['orders:create'],
    wallet_id: share.wallet_id,
  });
  await sidecar.caughtUp();
  const counter = `wallet_spend:${idDigest(above.wallet_id)}:${idDigest(share.wallet_id)}`;
  return { gateId: gate.gate_id, jwt, passportId: passport_id, counter };
};
const hold = async ({ gateId, jwt }: Shop, request: object = {}): Promise<string> => {
  const asked = { permission_key: 'orders:create', amount: 10, hold: true, ...request };
  const { body } = await sidecar.check(gateId, jwt, asked);
  expect(body).toMatchObject({ decision: 'PERMIT' });
  return body.attestation_id;
};
const report = (id: string, body: unknown, key?: string | null): Promise<Reply> =>
  sidecar.call({ path: `/v1/attestations/${id}/outcome`, body, ...(key === undefined ? {} : { key }) });
const outcomeOf = async (id: string) => (await api.call({ url: `/v1/attestations/${id}/outcome` })).body;
const stored = (id: string) =>
  until(async () => (await api.call({ url: `/v1/attestations/${id}` })).status === 200, {
    what: 'the record',
  });
/** Applies what has been shipped, until this PERMIT has its outcome. */
const settled = async (id: string) => {
  await until(
    async () => {
      await applyReported(api.deps);
      return (await outcomeOf(id)).outcome != null;
    },
    { what: 'the outcome' },
  );
  return outcomeOf(id);
};
/** PERMITs of reports that are not applied yet, one for each report. */
const waitingOf = async (ids: readonly string[]): Promise<readonly string[]> =>
  (await list('waiting&limit=100'))
    .map((each: Reply['body']) => each.attestation_id)
    .filter((id: string) => ids.includes(id));
const list = async (status: string) => (await api.call({ url: `/v1/outcomes?status=${status}` })).body.items;
/** What its day counts as used: given out, less what sidecars hold and can return. */
const usedToday = async ({ counter }: Shop): Promise<number> => {
  const [row] = await api.deps.sql<{ used: number }[]>`
    SELECT (q.leased - coalesce((SELECT sum(l.units - coalesce(
        (SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0))
      FROM quota_leases l WHERE (l.counter, l.window_name, l.starts_at_ms) = (q.counter, q.window_name, q.starts_at_ms)
      ), 0))::bigint AS used
    FROM quota_windows q WHERE counter = ${counter} AND window_name = 'day'`;
  return (row?.used ?? 0) / 1e6;
};

describe('a held PERMIT of a sidecar', () => {
  it('names its hold, and has it on record', async () => {
    const shop = await open();
    const { body } = await sidecar.check(shop.gateId, shop.jwt, {
      ...{ permission_key: 'orders:create', amount: 10, hold: { expires_in_s: 600 } },
    });
    expect(body.hold).toMatchObject({ amount_usd: 10 });
    await stored(body.attestation_id);
    const record = (await api.call({ url: `/v1/attestations/${body.attestation_id}` })).body;
    expect(record.hold_expires_at).toBe(body.hold.expires_at);
    expect(Date.parse(record.hold_expires_at) - Date.parse(record.timestamp)).toBe(600_000);
    expect(await outcomeOf(body.attestation_id)).toMatchObject({ hold: { status: 'open' }, counts_usd: 10 });
  });

  it('lasts as long as its gate says, from the feed and from a snapshot', async () => {
    const shop = await open({ holds: { expires_in_s: 120, on_expiry: 'release' } });
    const held = async (asked: TestSidecar) => {
      const request = { permission_key: 'orders:create', amount: 1, hold: true };
      const { body } = await asked.check(shop.gateId, shop.jwt, request);
      return Date.parse(body.hold.expires_at) - api.deps.clock.now();
    };
    expect(Math.abs((await held(sidecar)) - 120_000)).toBeLessThan(5_000);
    const other = await startTestSidecar({ api });
    expect(Math.abs((await held(other)) - 120_000)).toBeLessThan(5_000);
    await other.close();
    other.removeFolder();
  });

  it('is refused without a gate or an amount', async () => {
    const shop = await open({});
    const enforced = await sidecar.check(null, shop.jwt, { amount: 1, hold: true });
    expectError(enforced, 'invalid_request', 'request.hold');
    const priceless = { permission_key: 'orders:create', hold: true };
    expect((await sidecar.check(shop.gateId, shop.jwt, priceless)).body.reason).toBe('amount_missing');
  });
});

describe('POST /v1/attestations/:id/outcome of a sidecar', () => {
  it('is accepted, shipped and applied once', async () => {
    const shop = await open();
    const id = await hold(shop);
    const reply = await report(id, { outcome: 'served', amount: 2.5, detail: '2 pages' });
    expect(reply.status).toBe(202);
    expect(reply.body).toEqual({ attestation_id: id, status: 'accepted' });
    expect(await settled(id)).toMatchObject({
      counts_usd: 2.5,
      detail: '2 pages',
      hold: { status: 'settled' },
    });
    await until(async () => (await usedToday(shop)) === 2.5, { what: 'the money' });
    expect(await api.deps.sql`SELECT FROM reported_outcomes WHERE attestation_id = ${id}`).toHaveLength(0);
    // Again, by either program: nothing moves.
    await report(id, { outcome: 'served', amount: 2.5 });
    await until(async () => (await applyReported(api.deps)) > 0, { what: 'the second report' });
    expect(
      (await api.call({ url: `/v1/attestations/${id}/outcome`, body: { outcome: 'served', amount: 2.5 } }))
        .status,
    ).toBe(200);
    expect(await usedToday(shop)).toBe(2.5);
    const { attestations } = (await api.call({ url: `/v1/attestations?passport_id=${shop.passportId}` }))
      .body;
    expect(attestations).toHaveLength(2);
    expect(attestations[0]).toMatchObject({ resolution: 'settled', refers_to: id });
    expect(attestations[0].source).toMatch(/^side_/);
  });

  it('gives money back that the process which took it no longer holds', async () => {
    const first = await startTestSidecar({ api });
    const shop = await open();
    await first.caughtUp();
    const request = { permission_key: 'orders:create', amount: 10, hold: true };
    const { body } = await first.check(shop.gateId, shop.jwt, request);
    await first.close();
    first.removeFolder();
    const id = body.attestation_id;
    await stored(id);
    await until(
      async () =>
        (await api.deps.sql`SELECT FROM former_leases WHERE counter = ${`gate_spend:${shop.gateId}`}`)
          .length > 0,
      { what: 'the end of its leases' },
    );
    expect(await usedToday(shop)).toBe(10);
    await api.call({ url: `/v1/attestations/${id}/outcome`, body: { outcome: 'failed' } });
    expect(await usedToday(shop)).toBe(0);
  });

  it('waits for its PERMIT, a week at most', async () => {
    const id = api.deps.random.newId('att', api.deps.clock.now());
    await report(id, { outcome: 'served' });
    await until(
      async () => (await list('waiting')).some((each: Reply['body']) => each.attestation_id === id),
      { what: 'the report' },
    );
    await applyReported(api.deps);
    api.advance(6 * dayMs);
    await applyReported(api.deps);
    expect(await list('waiting')).toMatchObject([{ attestation_id: id, refusal: null }]);
    api.advance(dayMs + hourMs);
    await applyReported(api.deps);
    expect(await list('waiting')).toEqual([]);
    expect((await list('refused'))[0]).toMatchObject({
      attestation_id: id,
      status: 'refused',
      refusal: { code: 'attestation_not_found' },
    });
  });

  it('is listed where the control plane refuses it', async () => {
    const shop = await open();
    const id = await hold(shop);
    expect((await report(id, { outcome: 'served', amount: 11 })).status).toBe(202);
    await until(
      async () => {
        await applyReported(api.deps);
        return (await list('refused')).some((each: Reply['body']) => each.attestation_id === id);
      },
      { what: 'the refusal' },
    );
    const [refused] = (await list('refused')).filter((each: Reply['body']) => each.attestation_id === id);
    expect(refused.refusal.code).toBe('amount_exceeds_hold');
    expect(await outcomeOf(id)).toMatchObject({ outcome: null, hold: { status: 'open' } });
  });

  it('charges overruns of many PERMITs in one look, and refuses those that find no room', async () => {
    const shop = await open({ spend_limits: { daily_usd: 400 }, holds: { overrun: 'charge' } });
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) ids.push(await hold(shop));
    for (const id of ids) await stored(id);
    const last = must(ids.at(-1), 'there are eight');
    for (const id of ids) await report(id, { outcome: 'served', amount: id === last ? 401 : 15 });
    // Behind what was refused the hold is still open.
    await report(last, { outcome: 'failed' });
    await until(async () => (await waitingOf(ids)).length === 9, { what: 'the reports' });
    await applyReported(api.deps);
    expect(await waitingOf(ids)).toEqual([]);
    const counts = await Promise.all(ids.map(async (id) => (await outcomeOf(id)).counts_usd));
    expect(counts).toEqual([15, 15, 15, 15, 15, 15, 15, 0]);
    const refused = (await list('refused')).filter((each: Reply['body']) => each.attestation_id === last);
    expect(refused).toMatchObject([{ refusal: { code: 'spend_limit_exceeded' } }]);
    expect(await usedToday(shop)).toBe(7 * 15);
  });

  it('that cannot be applied does not hold up the others', async () => {
    const bad = await open({ spend_limits: { daily_usd: 100 }, holds: { overrun: 'charge' } });
    const good = await open();
    const [badId, goodId] = [await hold(bad), await hold(good)];
    await stored(badId);
    await stored(goodId);
    const constraintsAre = (constraints: object) =>
      api.deps.sql`
        UPDATE passports SET constraints = ${JSON.stringify(constraints)}::text::jsonb WHERE passport_id = ${bad.passportId}`;
    await constraintsAre({ spend_limits: 'unreadable' });
    await report(badId, { outcome: 'served', amount: 11 });
    await report(goodId, { outcome: 'served', amount: 4 });
    await until(async () => (await waitingOf([badId, goodId])).length === 2, { what: 'the reports' });
    await applyReported(api.deps);
    expect(await waitingOf([badId, goodId])).toEqual([badId]);
    expect(await outcomeOf(goodId)).toMatchObject({ counts_usd: 4 });
    // It is left alone until its next turn.
    expect(await applyReported(api.deps)).toBe(0);
    await constraintsAre({});
    api.advance(minuteMs);
    await applyReported(api.deps);
    expect(await outcomeOf(badId)).toMatchObject({ counts_usd: 11 });
  });

  it.each([
    ['att_1', { outcome: 'served' }, 'attestation_not_found'],
    [null, { outcome: 'eaten' }, 'invalid_request'],
    [null, { outcome: 'served', amount: -1 }, 'invalid_request'],
    [null, { outcome: 'served', amount: 0.1234567 }, 'invalid_request'],
    [null, { outcome: 'failed', amount: 1 }, 'invalid_request'],
    [null, '[]', 'invalid_request'],
    [null, '{', 'invalid_json'],
  ] as const)('refuses %j %j', async (id, body, code) => {
    const named = id ?? api.deps.random.newId('att', api.deps.clock.now());
    expect((await report(named, body)).body.error.code).toBe(code);
  });

  it('needs a key with enforcement:check', async () => {
    const id = api.deps.random.newId('att', api.deps.clock.now());
    expectError(await report(id, { outcome: 'served' }, null), 'unauthorized');
    const { key } = await api.createKey({ scopes: ['gates:read'] });
    await sidecar.caughtUp();
    expectError(await report(id, { outcome: 'served' }, key), 'insufficient_scope');
  });
});

describe('an outcome by another way', () => {
  it('comes in a frame of the stream, answered under its id', async () => {
    const shop = await open();
    const id = await hold(shop);
    const stream = await StreamClient.open(sidecar.origin, api.adminKey);
    stream.send({ id: 'a', attestation_id: id, outcome: 'served', amount: 3 });
    stream.send({ id: 'b', attestation_id: id, outcome: 'eaten' });
    stream.send({ id: 'c', outcome: 'served' });
    await until(() => stream.answers.length === 3, { what: 'the answers' });
    const answers = new Map(stream.answers.map((answer) => [answer.id, answer]));
    expect(answers.get('a')).toEqual({ id: 'a', attestation_id: id, status: 'accepted' });
    expect(answers.get('b').error).toMatchObject({ code: 'invalid_request', param: 'outcome' });
    expect(answers.get('c').error).toMatchObject({ code: 'invalid_request', param: 'attestation_id' });
    stream.socket.close();
    expect(await settled(id)).toMatchObject({ counts_usd: 3 });
  });

  it('comes from the process around an embedded sidecar', async () => {
    const world = await startTestEmbedded({ api });
    const shop = await open();
    await world.caughtUp();
    const request = { permission_key: 'orders:create', amount: 10, hold: true } as const;
    const permit = await world.embedded.check({ gate: shop.gateId, passport: shop.jwt, request });
    const id = permit.attestation_id ?? '';
    await world.embedded.reportOutcome(id, { outcome: 'failed' });
    await expect(world.embedded.reportOutcome(id, { outcome: 'eaten' } as never)).rejects.toThrow('outcome');
    expect(await settled(id)).toMatchObject({ outcome: 'failed', counts_usd: 0 });
    await world.close();
    world.removeFolder();
  });

  it('waits in the spool while the control plane is away, and counts once', async () => {
    const own = await startTestSidecar({ api });
    const shop = await open();
    await own.caughtUp();
    const request = { permission_key: 'orders:create', amount: 10, hold: true };
    const { body } = await own.check(shop.gateId, shop.jwt, request);
    own.link.cut();
    const path = `/v1/attestations/${body.attestation_id}/outcome`;
    expect((await own.call({ path, body: { outcome: 'served', amount: 1 } })).status).toBe(202);
    await own.close();
    const again = await startTestSidecar({ api, folder: own.folder });
    expect(await settled(body.attestation_id)).toMatchObject({ counts_usd: 1 });
    await again.close();
    again.removeFolder();
  });
});

describe.each([
  ['of a gate', open],
  ['of a wallet', openWallet],
] as const)('a client of money %s that crashes', (_of, enter) => {
  const expireAll = async () => {
    api.advance(hourMs + 1_000);
    while ((await expireHolds(api.deps)) > 0);
  };

  it('before it was told of its decision, and asks again with its key: one PERMIT, counted once', async () => {
    const shop = await enter();
    const keyed = { idempotency_key: `key-${shop.passportId}` };
    const id = await hold(shop, keyed);
    expect(await hold(shop, keyed)).toBe(id);
    await stored(id);
    expect(await usedToday(shop)).toBe(10);
    await expireAll();
    expect(await usedToday(shop)).toBe(10);
  });

  it('behind the decision: the hold ends by itself, counted once', async () => {
    const shop = await enter();
    const id = await hold(shop);
    await stored(id);
    await expireAll();
    expect(await outcomeOf(id)).toMatchObject({ hold: { status: 'expired' }, counts_usd: 10 });
    expect(await usedToday(shop)).toBe(10);
  });

  it('before it has sent its outcome, and reports when it is back: refused, counted once', async () => {
    const shop = await enter();
    const id = await hold(shop);
    await stored(id);
    await expireAll();
    expectError(
      await api.call({ url: `/v1/attestations/${id}/outcome`, body: { outcome: 'served', amount: 4 } }),
      'outcome_conflict',
    );
    expect(await usedToday(shop)).toBe(10);
  });

  it('before its outcome was answered, and reports again: counted once', async () => {
    const shop = await enter();
    const id = await hold(shop);
    await Promise.all([1, 2, 3].map(() => report(id, { outcome: 'served', amount: 4 })));
    await settled(id);
    await applyReported(api.deps);
    expect(await usedToday(shop)).toBe(4);
    await expireAll();
    expect(await usedToday(shop)).toBe(4);
  });

  it('behind the answer to its outcome, and says another when it is back: refused, counted once', async () => {
    const shop = await enter();
    const id = await hold(shop);
    await report(id, { outcome: 'served', amount: 4 });
    await settled(id);
    await report(id, { outcome: 'failed' });
    await until(async () => (await applyReported(api.deps)) > 0, { what: 'the second report' });
    expect(await outcomeOf(id)).toMatchObject({ outcome: 'served', counts_usd: 4 });
    expect(await usedToday(shop)).toBe(4);
  });
});
