import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, hashOf } from '../support/service/approvals.ts';
import { ofGate } from '../support/service/lease-holder.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  expectSoundStore,
  newReaderId,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let sidecar: ConnectedSidecar;
let holder: string;
let gateId: GateId;
let passport: Reply['body'];

beforeAll(() => goToNoon(api));
beforeEach(async () => {
  sidecar = await connectSidecar(api);
  holder = Buffer.from(api.deps.random.bytes(16)).toString('hex');
  passport = await api.issuePassport();
  const constraints = { spend_limits: { daily_usd: 100 }, rate_limits: { requests_per_day: 10 } };
  gateId = (await api.createGate({ constraints })).gate_id;
});
afterAll(() => expectSoundStore(api));

const usd = 1_000_000;

/** Leases 40 dollars and 4 requests of today, and returns the leases by their ids. */
async function lease(): Promise<readonly [money: number, requests: number]> {
  const asks = [
    {
      ...ofGate('gate_spend', gateId),
      window: 'day',
      units_min: 40 * usd,
      units_needed: 40 * usd,
      units_ahead: 0,
    },
    { ...ofGate('gate_rate', gateId), window: 'day', units_min: 4, units_needed: 4, units_ahead: 0 },
  ];
  const { sidecarId: sidecar_id, connectionId: connection_id, epoch } = sidecar;
  const body = { sidecar_id, connection_id, holder, epoch, seq: 1, returns: [], asks };
  const reply = await api.call({ url: '/v1/sync/leases', key: sidecar.key, body });
  expect(reply.body.grants).toMatchObject([{ granted: 40 * usd }, { granted: 4 }]);
  const [money, requests] = reply.body.grants;
  return [money.lease_id, requests.lease_id];
}

/** Units of today that are given out: dollars and requests. */
async function given(): Promise<readonly [usd: number, requests: number]> {
  const { startsAtMs } = windowAt('day', api.deps.clock.now());
  const rows = await api.deps.sql<{ counter: string; leased: number }[]>`
    SELECT counter, leased FROM quota_windows WHERE counter LIKE ${`%${gateId}`} AND starts_at_ms = ${startsAtMs}`;
  const of = (kind: string) => rows.find(({ counter }) => counter.startsWith(kind))?.leased ?? 0;
  return [of('gate_spend') / usd, of('gate_rate')];
}

const bound = (change: object = {}) => ({
  ...{ sidecar_id: sidecar.sidecarId, connection_id: sidecar.connectionId, holder },
  ...{ passport_id: passport.passport_id, token_hash: sha256Hex(passport.jwt), gate_id: gateId },
  ...{ gate_version: 1, request_hash: hashOf(1), idempotency_key: 'order-1' as string | null },
  ...change,
});
const settle = async (
  body: Parameters<typeof settlementCall>[0],
  by: ConnectedSidecar = sidecar,
): Promise<SettlementAnswer> => {
  const reply = await api.call({
    url: '/v1/sync/settlements',
    key: by.key,
    body: settlementCall({ ...body, sidecar_id: by.sidecarId, connection_id: by.connectionId }),
  });
  expect(reply.status).toBe(200);
  return reply.body.answers[0];
};
const permitRecord = (took: readonly number[]): SpooledRecord =>
  recordOf(api, { gateId, passport }, { request_hash: hashOf(1), amount_micro_usd: 10 * usd, took });
const permit = (record: SpooledRecord, change: object = {}) =>
  settle({ ...bound(change), kind: 'permit', approval_id: null, record, ...change });
/** Of 10 dollars. */
const newSuspend = () => ({
  ...bound({ idempotency_key: null }),
  kind: 'suspend',
  approval_id: api.deps.random.newId('appr', api.deps.clock.now()),
  permission_key: 'orders:create',
  amount_micro_usd: 10 * usd,
  constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'approval'],
  pii: [],
  expires_in_ms: 300_000,
  held: [
    {
      ...ofGate('gate_spend', gateId),
      window: 'day',
      starts_at_ms: windowAt('day', api.deps.clock.now()).startsAtMs,
      units: 10 * usd,
    },
  ],
});
const lookUp = (readerId: string = newReaderId(), by: ConnectedSidecar = sidecar) =>
  settle({ ...bound(), kind: 'look_up', approval_id: null, short: [], reader_id: readerId }, by);
let seq = 1;
const voidOf = async (id: string, took: readonly number[], by: ConnectedSidecar = sidecar) => {
  const entry = { voids: id, took, amount_micro_usd: 10 * usd, timestamp_ms: api.deps.clock.now() };
  const reply = await by.send(seq, [entry as unknown as SpooledRecord]);
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  seq += 1;
};
beforeEach(() => {
  seq = 1;
});
const records = async () => {
  const url = `/v1/attestations?passport_id=${passport.passport_id}`;
  return (await api.call({ url })).body.attestations;
};

describe('the void of a permit', () => {
  it('that was committed is followed in its chain by a record that says so, and everything goes back', async () => {
    const took = await lease();
    const record = permitRecord(took);
    expect(await permit(record)).toEqual({ kind: 'committed' });
    expect(await given()).toEqual([40, 4]);
    await voidOf(record.id, took);
    expect(await records()).toMatchObject([
      {
        decision: 'PERMIT',
        resolution: 'voided',
        refers_to: record.id,
        sequence: 2,
        source: sidecar.sidecarId,
      },
      { id: record.id, decision: 'PERMIT', resolution: null, sequence: 1 },
    ]);
    // What it took is free for everybody; what the holder did not use stays the holder's.
    expect(await given()).toEqual([30, 3]);
    expect(await lookUp()).toEqual({ kind: 'none', may_change: false });
    const retry = permitRecord(took);
    expect(await permit(retry)).toEqual({ kind: 'committed' });
    // Its own copy, on its way for long, finds that it is void.
    expect(await permit(record)).toEqual({ kind: 'voided' });
  });

  it('that comes first prevents it for good, and frees its units', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await voidOf(record.id, took);
    expect(await given()).toEqual([30, 3]);
    expect(await permit(record)).toEqual({ kind: 'voided' });
    expect(await records()).toEqual([]);
    expect(await given()).toEqual([30, 3]);
  });

  it('that another request was answered with changes nothing: that client has its PERMIT', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    expect(await lookUp()).toMatchObject({ kind: 'replayed', first: { attestation_id: record.id } });
    await voidOf(record.id, took);
    expect(await records()).toHaveLength(1);
    expect(await given()).toEqual([40, 4]);
    expect(await lookUp()).toMatchObject({ kind: 'replayed' });
  });

  it('that came twice, or from another sidecar, changes nothing more', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const stranger = await connectSidecar(api);
    await voidOf(record.id, took, stranger);
    expect(await records()).toHaveLength(1);
    expect(await given()).toEqual([40, 4]);
    seq = 1;
    await voidOf(record.id, took);
    await voidOf(record.id, took);
    expect(await records()).toHaveLength(2);
    expect(await given()).toEqual([30, 3]);
  });

  it('gives its approval back to the request', async () => {
    const took = await lease();
    const suspend = newSuspend();
    expect(await settle(suspend)).toMatchObject({ kind: 'suspended', is_new: true });
    const approval = `/v1/approvals/${suspend.approval_id}`;
    await api.call({ url: `${approval}/approve`, body: {} });
    const used = { idempotency_key: null, approval_id: suspend.approval_id };
    const record = permitRecord([took[1]]);
    expect(await permit(record, used)).toEqual({ kind: 'committed' });
    expect((await api.call({ url: approval })).body.status).toBe('used');
    await voidOf(record.id, [took[1]]);
    expect((await api.call({ url: approval })).body.status).toBe('approved');
    expect(await given()).toEqual([40, 3]);
    expect(await permit(permitRecord([took[1]]), used)).toEqual({ kind: 'committed' });
    expect((await api.call({ url: approval })).body.status).toBe('used');
  });
});

describe('the void of a suspend', () => {
  const statusOf = async (approvalId: string) =>
    (await api.call({ url: `/v1/approvals/${approvalId}` })).body.status;
  const expiry = [{ decision: 'SUSPEND', resolution: 'expired' }];

  it('that was committed frees its money with its own commit, and attests the end of its approval', async () => {
    const [money] = await lease();
    const suspend = newSuspend();
    expect(await settle(suspend)).toMatchObject({ kind: 'suspended', is_new: true });
    for (const _repeat of [1, 2]) await voidOf(suspend.approval_id, [money]);
    expect(await given()).toEqual([30, 4]);
    expect(await statusOf(suspend.approval_id)).toBe('expired');
    expect(await records()).toMatchObject(expiry);
    expect(await expireApprovals(api.deps)).toBe(0);
    expect(await records()).toMatchObject(expiry);
  });

  it('that comes before it prevents the approval for good, and frees its units', async () => {
    const [money] = await lease();
    const suspend = newSuspend();
    await voidOf(suspend.approval_id, [money]);
    expect(await settle(suspend)).toEqual({ kind: 'voided' });
    expect(await given()).toEqual([30, 4]);
    expect(await records()).toEqual([]);
  });

  it('with a second waiting client leaves the money held until that one is void too', async () => {
    const [money] = await lease();
    const suspend = newSuspend();
    await settle(suspend);
    const reader = newReaderId();
    expect(await settle({ ...newSuspend(), reader_id: reader })).toMatchObject({ is_new: false });
    await voidOf(suspend.approval_id, [money]);
    expect([await statusOf(suspend.approval_id), await given()]).toEqual(['pending', [40, 4]]);
    await voidOf(reader, []);
    expect([await statusOf(suspend.approval_id), await given()]).toEqual(['expired', [30, 4]]);
  });

  it('that a person has resolved leaves that word and its money alone', async () => {
    const [money] = await lease();
    const suspend = newSuspend();
    await settle(suspend);
    await api.call({ url: `/v1/approvals/${suspend.approval_id}/approve`, body: {} });
    await voidOf(suspend.approval_id, [money]);
    expect([await statusOf(suspend.approval_id), await given()]).toEqual(['approved', [40, 4]]);
  });
});

describe('the void of a suspend that had found the approval of another one', () => {
  it('frees what its sidecar has passed on, once, and leaves that approval alone', async () => {
    const [money] = await lease();
    const [first, copy] = [newSuspend(), newSuspend()];
    await settle(first);
    // Its answer is lost, so that the sidecar does not know.
    expect(await settle(copy)).toMatchObject({ approval_id: first.approval_id, is_new: false });
    expect(await given()).toEqual([40, 4]);
    for (const _repeat of [1, 2]) await voidOf(copy.approval_id, [money]);
    expect(await given()).toEqual([30, 4]);
    expect(await settle(copy)).toEqual({ kind: 'voided' });
    expect((await api.call({ url: `/v1/approvals/${first.approval_id}` })).body.status).toBe('pending');
  });
});

describe('a reading, by which a request is answered with the PERMIT of another', () => {
  const replayed = { kind: 'replayed' };
  const standing = async () => (await records()).length === 1;

  it('keeps the PERMIT until it is voided too; then everything goes back', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const reader = newReaderId();
    expect(await lookUp(reader)).toMatchObject(replayed);
    // Sent again, it is the same reading.
    expect(await lookUp(reader)).toMatchObject(replayed);
    await voidOf(record.id, took);
    expect(await standing()).toBe(true);
    await voidOf(reader, []);
    expect(await records()).toMatchObject([
      { resolution: 'voided', refers_to: record.id },
      { id: record.id, resolution: null },
    ]);
    expect(await given()).toEqual([30, 3]);
    expect(await lookUp()).toMatchObject({ kind: 'none' });
  });

  it('that is voided leaves a PERMIT alone that its own client was answered with', async () => {
    const record = permitRecord(await lease());
    await permit(record);
    const reader = newReaderId();
    await lookUp(reader);
    await voidOf(reader, []);
    expect(await standing()).toBe(true);
    expect(await lookUp()).toMatchObject(replayed);
  });

  it('is not begun after its void', async () => {
    const record = permitRecord(await lease());
    await permit(record);
    const reader = newReaderId();
    await voidOf(reader, []);
    expect(await lookUp(reader)).toEqual({ kind: 'none', may_change: false });
    await voidOf(record.id, []);
    expect(await standing()).toBe(false);
  });

  it('is not begun after its void by its permit, either, which is void if it comes once more', async () => {
    const took = await lease();
    await permit(permitRecord(took));
    const copy = permitRecord(took);
    const reader = { reader_id: newReaderId() };
    expect(await permit(copy, reader)).toMatchObject(replayed);
    await voidOf(reader.reader_id, []);
    expect(await permit(copy, reader)).toEqual({ kind: 'voided' });
    expect(await standing()).toBe(true);
  });

  it('is not begun by a look-up that its own approval refuses, which voids none', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const approval_id = api.deps.random.newId('appr', api.deps.clock.now());
    expect(
      await settle({ ...bound(), kind: 'look_up', approval_id, short: [], reader_id: newReaderId() }),
    ).toMatchObject({ kind: 'approval', standing: 'mismatch' });
    await voidOf(record.id, took);
    expect(await records()).toMatchObject([
      { resolution: 'voided', refers_to: record.id },
      { id: record.id },
    ]);
    expect(await given()).toEqual([30, 3]);
  });

  it('is voided by the sidecar that reads, and no other', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const reader = newReaderId();
    await lookUp(reader);
    await voidOf(record.id, took);
    const stranger = await connectSidecar(api);
    seq = 1;
    await voidOf(reader, [], stranger);
    expect(await standing()).toBe(true);
  });

  it('of another sidecar brings the units of the first one back', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const other = await connectSidecar(api);
    const reader = newReaderId();
    expect(await lookUp(reader, other)).toMatchObject(replayed);
    await voidOf(record.id, took);
    expect(await given()).toEqual([40, 4]);
    seq = 1;
    await voidOf(reader, [], other);
    expect(await given()).toEqual([30, 3]);
    expect((await records())[0]).toMatchObject({ resolution: 'voided', source: other.sidecarId });
  });

  it('of another sidecar brings them back after the leases of the first one went', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const other = await connectSidecar(api);
    const reader = newReaderId();
    expect(await lookUp(reader, other)).toMatchObject(replayed);
    await voidOf(record.id, took);
    const ended = await sidecar.send(seq, [], { end: { nothing_lost: true, torn_bytes: 0 } });
    expect(ended.status).toBe(200);
    expect(await given()).toEqual([10, 1]);
    seq = 1;
    for (let times = 0; times < 2; times++) await voidOf(reader, [], other);
    expect(await given()).toEqual([0, 0]);
    expect(await records()).toMatchObject([
      { resolution: 'voided', refers_to: record.id },
      { id: record.id },
    ]);
  });

  it('goes with the settlement that made it, in one entry of the spool', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const [second, reader] = [permitRecord(took), newReaderId()];
    expect(await permit(second, { reader_id: reader })).toMatchObject(replayed);
    await voidOf(record.id, took);
    const entry = { voids: second.id, reader_id: reader, took: [], amount_micro_usd: null };
    const sent = { ...entry, timestamp_ms: api.deps.clock.now() } as unknown as SpooledRecord;
    expect((await sidecar.send(seq, [sent])).status).toBe(200);
    expect(await standing()).toBe(false);
  });

  it('is bounded: a PERMIT with sixteen readers is permanent', async () => {
    const took = await lease();
    const record = permitRecord(took);
    await permit(record);
    const readers = Array.from({ length: 17 }, newReaderId);
    for (const reader of readers) expect(await lookUp(reader)).toMatchObject(replayed);
    const [{ count } = { count: 0 }] = await api.deps
      .sql`SELECT count(*) FROM settlements WHERE reads = ${record.id}`;
    expect(Number(count)).toBe(16);
    await voidOf(record.id, took);
    for (const reader of readers) await voidOf(reader, []);
    expect(await standing()).toBe(true);
  });
});

describe('a limit that keeps a request with a key', () => {
  const short = (leasedMax: number) => [
    {
      ...ofGate('gate_rate', gateId),
      window: 'day',
      starts_at_ms: windowAt('day', api.deps.clock.now()).startsAtMs,
      leased_max: leasedMax,
    },
  ];
  const ask = (by: ConnectedSidecar, leasedMax = 0) =>
    settle(
      {
        ...bound(by === sidecar ? {} : { holder: 'ab'.repeat(16) }),
        kind: 'look_up',
        approval_id: null,
        short: short(leasedMax),
      },
      by,
    );

  it('may change as long as a holder has units that it neither used on record nor gave back', async () => {
    const took = await lease();
    const other = await connectSidecar(api);
    expect(await ask(other)).toEqual({ kind: 'none', may_change: true });
    // Its own too: a settlement of its own may be on its way.
    expect(await ask(sidecar)).toEqual({ kind: 'none', may_change: true });
    const used = [1, 2, 3, 4].map(() =>
      recordOf(api, { gateId, passport }, { request_hash: hashOf(2), amount_micro_usd: 10 * usd, took }),
    );
    await sidecar.send(1, used);
    for (const by of [other, sidecar]) expect(await ask(by)).toEqual({ kind: 'none', may_change: false });
  });

  it('has changed if units came back since the request was refused', async () => {
    const took = await lease();
    const used = [1, 2, 3, 4].map(() =>
      recordOf(api, { gateId, passport }, { request_hash: hashOf(2), amount_micro_usd: 10 * usd, took }),
    );
    await sidecar.send(1, used);
    const [, leased] = await given();
    expect(await ask(sidecar, leased - 1)).toEqual({ kind: 'none', may_change: false });
    expect(await ask(sidecar, leased)).toEqual({ kind: 'none', may_change: true });
  });

  it('changes no more once the other sidecar is silent', async () => {
    await lease();
    const other = await connectSidecar(api);
    await api.deps
      .sql`UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms - 60000 WHERE sidecar_id = ${sidecar.sidecarId}`;
    expect(await ask(other)).toEqual({ kind: 'none', may_change: false });
  });
});
