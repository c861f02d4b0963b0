import { beforeAll, describe, expect, it } from 'vitest';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { must } from '../../shared/errors/assert.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestEmbedded, startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
const sidecar = useSidecar(() => ({ api }));

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

  it('charges no more than a request of that amount would pass with', async () => {
    const shop = await open({ holds: { overrun: 'charge' }, approvals: { above_usd: 12 } });
    const [id, other] = [await hold(shop), await hold(shop)];
    for (const each of [id, other]) await stored(each);
    await report(id, { outcome: 'served', amount: 12.01 });
    await report(other, { outcome: 'served', amount: 12 });
    expect((await settled(other)).counts_usd).toBe(12);
    await until(
      async () => (await list('refused')).some((each: Reply['body']) => each.attestation_id === id),
      {
        what: 'the refusal',
      },
    );
    const [refused] = (await list('refused')).filter((each: Reply['body']) => each.attestation_id === id);
    expect(refused.refusal.code).toBe('spend_limit_exceeded');
    expect(await outcomeOf(id)).toMatchObject({ outcome: null, hold: { status: 'open' } });
  });

  it('charges overruns of many PERMITs in one look, and refuses those that find no room', async () => {
    const shop = await open({ spend_limits: { daily_usd: 400 }, holds: { overrun: 'charge' } });
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) ids.push(await hold(shop));
    for (const id of ids) await stored(id);
    const last = must(ids.at(-1), 'there are eight');
    for (const id of ids) await report(id, { outcome: 'served', amount: id === last ? 401 : 15 });
    // After what was refused the hold is still open.
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
