import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { limits } from '../../shared/model/limits.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { fateOf } from '../../sidecar/settle/settlement-outcome.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { askAsManyAsMay, goToNoon, hashOf, heldUsd } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  expectSoundStore,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const other = useStarted(() => secondControlPlane(api));
let sidecar: ConnectedSidecar;
/** Of a holder that has leased nothing yet. */
let holder: string;
let gateId: string;
let passport: Reply['body'];

beforeAll(async () => {
  goToNoon(api);
  sidecar = await connectSidecar(api);
});
beforeEach(async () => {
  holder = Buffer.from(api.deps.random.bytes(16)).toString('hex');
  passport = await api.issuePassport();
  gateId = (
    await api.createGate({ constraints: { spend_limits: { daily_usd: 100 }, approvals: { above_usd: 10 } } })
  ).gate_id;
});
afterAll(() => expectSoundStore(api));

const requestHash = hashOf(1);
/** Of a PUT: the gate decides by something else then. */
const otherPolicy = { constraints: { approvals: { expires_in_s: 299 } } };
const ofCall = (from: ConnectedSidecar = sidecar) => ({
  ...{ sidecar_id: from.sidecarId, connection_id: from.connectionId, holder },
  passport_id: passport.passport_id,
  token_hash: sha256Hex(passport.jwt),
  ...{ gate_id: gateId as string | null, gate_version: 1, request_hash: requestHash },
  idempotency_key: null as string | null,
});
const nothing: SettlementAnswer = { kind: 'none', may_change: false };
type Flat = Parameters<typeof settlementCall>[0];
const settle = (body: Flat, key = sidecar.key): Promise<Reply> =>
  api.call({ url: '/v1/sync/settlements', key, body: settlementCall(body) });
/** All in one call, in that order, and with time to wait for locks. */
const settleAll = (bodies: readonly Flat[]): Promise<Reply> => {
  const calls = bodies.map((body) => settlementCall({ ...body, wanted_ms: limits.decisionDeadlineMs }));
  const settlements = calls.flatMap((call) => call.settlements);
  return api.call({ url: '/v1/sync/settlements', key: sidecar.key, body: { ...calls[0], settlements } });
};
const approvalIdOf = (answer: SettlementAnswer): string =>
  answer.kind === 'suspended' ? answer.approval_id : answer.kind;
/** One that had to wait too long for somebody else's lock is sent again, as a sidecar does. */
const answerTo = async (body: Flat): Promise<SettlementAnswer> => {
  const reply = await untilAnswer(
    () => settle(body),
    ({ status }) => status !== 503,
    { what: 'an answer' },
  );
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body.answers[0];
};

const permitRecord = (change: object = {}) =>
  recordOf(api, { gateId, passport }, { request_hash: requestHash, amount_micro_usd: 25_000_000, ...change });
const permit = (change: object = {}, record: object = permitRecord()) => ({
  ...ofCall(),
  ...{ kind: 'permit', approval_id: null, idempotency_key: 'order-1', record },
  ...change,
});
const newApprovalId = () => api.deps.random.newId('appr', api.deps.clock.now());
const today = () => windowAt('day', api.deps.clock.now()).startsAtMs;
const ofGate = () => ({
  ...{ kind: 'gate_spend', gate_id: gateId, passport_id: null, token_hash: null, window: 'day' },
});
const heldMoney = (units: number) => ({ ...ofGate(), starts_at_ms: today(), units });
const suspend = (change: object = {}, amount = 25_000_000) => ({
  ...ofCall(),
  ...{ kind: 'suspend', approval_id: newApprovalId(), permission_key: 'orders:create' },
  amount_micro_usd: amount,
  constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'approval'],
  ...{ pii: [], expires_in_ms: 300_000, held: [heldMoney(amount)] },
  ...change,
});
const lookUp = (change: object = {}) => ({
  ...ofCall(),
  ...{ kind: 'look_up', approval_id: null, short: [] },
  ...change,
});

/** Leases micro-USD of today at the gate to the holder. */
async function lease(units: number): Promise<void> {
  const reply = await api.call({
    url: '/v1/sync/leases',
    key: sidecar.key,
    body: {
      ...{ sidecar_id: sidecar.sidecarId, connection_id: sidecar.connectionId, holder, seq: 1, returns: [] },
      asks: [{ ...ofGate(), units_min: units, units_needed: units, units_ahead: 0 }],
    },
  });
  expect(reply.body.grants).toMatchObject([{ granted: units }]);
}
async function leasedUnits(): Promise<number> {
  const rows = await api.deps.sql<
    { units: number }[]
  >`SELECT units FROM quota_leases WHERE holder = ${holder}`;
  return rows.reduce((sum, { units }) => sum + units, 0);
}

const isStored = async (id: string): Promise<boolean> =>
  (await api.deps.sql`SELECT FROM attestations WHERE attestation_id = ${id}`).length === 1;
const statusOf = async (approvalId: string): Promise<string> =>
  (await api.call({ url: `/v1/approvals/${approvalId}` })).body.status;
const resolve = async (approvalId: string, word: 'approve' | 'deny') =>
  expect((await api.call({ url: `/v1/approvals/${approvalId}/${word}`, body: {} })).status).toBe(200);
const revoke = () => api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
/** Opened through the sidecar, and approved. */
async function approved(): Promise<string> {
  await lease(25_000_000);
  const call = suspend();
  expect(await answerTo(call)).toMatchObject({ kind: 'suspended', is_new: true });
  await resolve(call.approval_id, 'approve');
  return call.approval_id;
}

describe('several in one call', () => {
  it('never wait in a circle for another call that names the same requests in another order', async () => {
    const hashes = Array.from({ length: 8 }, (_, n) => hashOf(n));
    for (let round = 1; round <= 4; round++) {
      passport = await api.issuePassport();
      const asked = () => hashes.map((request_hash) => suspend({ request_hash, held: [] }));
      const replies = await Promise.all([settleAll(asked()), settleAll(asked().toReversed())]);
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
      const ids = replies.flatMap(({ body }) => body.answers.map(approvalIdOf));
      expect(new Set(ids).size).toBe(hashes.length);
    }
  });

  it('are answered in order, whichever is settled first', async () => {
    await lease(25_000_000);
    const unpriced = suspend({ request_hash: hashOf(0), held: [], amount_micro_usd: null });
    const priced = suspend({ request_hash: hashOf(2) });
    const copy = suspend({ idempotency_key: 'order-1' });
    const calls = [copy, unpriced, priced, permit(), lookUp()];
    expect((await settleAll(calls)).body.answers).toMatchObject([
      { kind: 'replayed' },
      { kind: 'suspended', approval_id: unpriced.approval_id },
      { kind: 'suspended', approval_id: priced.approval_id },
      { kind: 'committed' },
      nothing,
    ]);
  });
});

describe('several that are settled one by one because one of them fails', () => {
  /** The control plane fails at whatever settles a request with this hash. */
  const poison = hashOf(666);
  beforeAll(() =>
    api.deps.sql.unsafe(`
      CREATE FUNCTION fail_poisoned() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'poisoned'; END $$;
      CREATE TRIGGER fail_poisoned BEFORE INSERT ON settlements FOR EACH ROW
        WHEN (NEW.request_hash = '${poison}') EXECUTE FUNCTION fail_poisoned()`),
  );
  afterAll(() => api.deps.sql.unsafe('DROP FUNCTION fail_poisoned CASCADE'));
  const poisoned = () => {
    const of = { request_hash: poison };
    return permit({ ...of, idempotency_key: 'poisoned' }, permitRecord(of));
  };
  const others = () => [permit(), suspend({ request_hash: hashOf(2) })] as const;

  it('are answered, except the failing one', async () => {
    await lease(25_000_000);
    const [permitted, suspended] = others();
    expect((await settleAll([permitted, poisoned(), suspended])).body.answers).toMatchObject([
      { kind: 'committed' },
      { kind: 'refused', message: 'internal error' },
      { kind: 'suspended', approval_id: suspended.approval_id },
    ]);
  });

  it('are not answered `overloaded` once one of them is committed', async () => {
    await lease(25_000_000);
    const [permitted, suspended] = others();
    const calls = [permitted, poisoned(), suspended];
    const reply = await api.deps.sql.begin(async (tx) => {
      await tx`SELECT FROM lease_holders WHERE holder = ${holder} FOR UPDATE`;
      return settleAll(calls);
    });
    expectError(reply, 'service_unavailable');
    expect(await isStored((permitted.record as { id: string }).id)).toBe(true);
    expect((await settleAll(calls)).body.answers).toMatchObject([
      { kind: 'committed' },
      { kind: 'refused' },
      { kind: 'suspended', approval_id: suspended.approval_id },
    ]);
  });
});

describe('a permit with a key', () => {
  it('is answered with an earlier PERMIT of the same key and request, and stores nothing', async () => {
    const first = permitRecord({ pii: [{ pointer: '/note', type: 'email' }] });
    await answerTo(permit({}, first));
    const second = permitRecord();
    expect(await answerTo(permit({}, second))).toEqual({
      kind: 'replayed',
      first: { attestation_id: first.id, constraints_evaluated: first.constraints_evaluated, pii: first.pii },
    });
    expect(await isStored(second.id)).toBe(false);
    expect(await answerTo(lookUp({ idempotency_key: 'order-1' }))).toMatchObject({
      kind: 'replayed',
      first: { attestation_id: first.id },
    });
  });

  it('is a conflict if its key has a PERMIT of another request, and stores nothing', async () => {
    await answerTo(permit());
    const change = { request_hash: hashOf(2) };
    const record = permitRecord(change);
    expect(await answerTo(permit(change, record))).toEqual({ kind: 'conflict', is_closed: true });
    // Its sidecar has given back what it took: it never comes true, not even if its key is free by then.
    expect(await answerTo(permit({ ...change, idempotency_key: 'free' }, record))).toEqual({
      kind: 'voided',
    });
    expect(await isStored(record.id)).toBe(false);
    expect(await answerTo(lookUp({ ...change, idempotency_key: 'order-1' }))).toEqual({ kind: 'conflict' });
    expect(await answerTo(suspend({ ...change, idempotency_key: 'order-1' }))).toMatchObject({
      kind: 'conflict',
      is_closed: true,
    });
  });

  it('that took from a lease that is gone is refused, and so are its copies: none of them is on record', async () => {
    const records = [1, 2, 3].map(() => permitRecord({ took: [999_999] }));
    const reply = await settleAll(records.map((record) => permit({}, record)));
    expect(reply.body.answers).toMatchObject(records.map(() => ({ kind: 'refused' })));
    for (const { id } of records) expect(await isStored(id)).toBe(false);
    expect(await answerTo(lookUp({ idempotency_key: 'order-1' }))).toEqual(nothing);
  });

  it('wins against others with its key, sidecars and control planes, once', async () => {
    const second = await connectSidecar(api);
    const calls = Array.from({ length: 12 }, (_, index) => ({
      ...permit({}, permitRecord()),
      ...(index % 2 === 0 ? {} : { sidecar_id: second.sidecarId, connection_id: second.connectionId }),
    }));
    const body = {
      passport: passport.jwt,
      request: { permission_key: 'orders:create', amount: 1, idempotency_key: 'order-1' },
    };
    const [answers, own] = await Promise.all([
      Promise.all(calls.map(answerTo)),
      other.call(`/v1/gates/${gateId}/check`, body),
    ]);
    const committed = answers.filter(({ kind }) => kind === 'committed').length;
    // The control plane's own request is another one: it wins alone, or is a conflict, or had to wait too
    // long.
    expect(committed).toBe(own.status === 200 ? 0 : 1);
    const kinds = new Set(answers.map(({ kind }) => kind));
    expect(kinds).toEqual(new Set(own.status === 200 ? ['conflict'] : ['committed', 'replayed']));
  });

  it("decided while its key had a PERMIT gets that PERMIT, even if it arrives after the key's end", async () => {
    const first = permitRecord();
    await answerTo(permit({}, first));
    const late = permit({}, permitRecord());
    const replayed = { kind: 'replayed', first: { attestation_id: first.id } };
    expect(await answerTo(late)).toMatchObject(replayed);
    // Its sidecar has given back what it took: delivered once more, it must not come true beside the first.
    api.advance(1);
    await api.deps
      .sql`UPDATE settlements SET expires_at_ms = ${api.deps.clock.now()} WHERE settlement_id = ${first.id}`;
    expect(await answerTo(late)).toMatchObject(replayed);
    expect(await answerTo(permit({}, permitRecord()))).toEqual({ kind: 'committed' });
  });

  it('works without a gate', async () => {
    const record = recordOf(api, { gateId: null, passport }, { request_hash: requestHash });
    const call = permit({ gate_id: null, gate_version: 0 }, record);
    expect(await answerTo(call)).toEqual({ kind: 'committed' });
    expect(
      await answerTo(lookUp({ gate_id: null, gate_version: 0, idempotency_key: 'order-1' })),
    ).toMatchObject({ kind: 'replayed' });
    expect(await answerTo(lookUp({ idempotency_key: 'order-1' }))).toEqual(nothing);
  });
});

describe('a permit with an approval', () => {
  it('does not use it under another policy that the gate has had', async () => {
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: otherPolicy });
    const [before, now] = await api.deps.sql<{ policy_hash: string }[]>`
      SELECT policy_hash FROM gate_policies WHERE gate_id = ${gateId} ORDER BY policy_version`;
    const opened = suspend({ gate_version: 2, held: [] });
    expect(await answerTo(opened)).toMatchObject({ kind: 'suspended', is_new: true });
    await resolve(opened.approval_id, 'approve');
    const tell = (policy: typeof now) => {
      const form2 = { trust_level: 'L1', state_age_ms: 5, extras: null, ...policy };
      const used = { idempotency_key: null, approval_id: opened.approval_id, gate_version: 2 };
      return answerTo(permit(used, permitRecord(form2)));
    };
    expect(await tell(before)).toMatchObject({ kind: 'approval', standing: 'mismatch' });
    expect(await statusOf(opened.approval_id)).toBe('approved');
    expect(await tell(now)).toEqual({ kind: 'committed' });
  });
});

describe('a suspend', () => {
  it('does not block the void of a PERMIT that took its key before the call was repeated', async () => {
    const approvalId = await approved();
    const call = suspend({ idempotency_key: 'order-1', held: [] });
    const first = await answerTo(call);
    expect(first).toMatchObject({ kind: 'suspended', approval_id: call.approval_id, is_new: true });
    const record = { ...permitRecord(), took: [] };
    expect(await answerTo(permit({ approval_id: approvalId }, record))).toEqual({ kind: 'committed' });
    expect(await answerTo(call)).toEqual(first);
    const voids = { voids: record.id, took: [], amount_micro_usd: null, timestamp_ms: api.deps.clock.now() };
    const epoch = Buffer.from(api.deps.random.bytes(16)).toString('hex');
    expect((await sidecar.send(1, [voids], { epoch })).status).toBe(200);
    expect(await statusOf(approvalId)).toBe('approved');
  });

  it('opens an approval with money of the holder, and answers so again', async () => {
    await lease(40_000_000);
    const call = suspend();
    const first = await answerTo(call);
    expect(first).toMatchObject({ kind: 'suspended', approval_id: call.approval_id, is_new: true });
    expect(await leasedUnits()).toBe(15_000_000);
    expect(await answerTo(call)).toEqual(first);
    expect(await leasedUnits()).toBe(15_000_000);
    expect((await api.call({ url: `/v1/approvals/${call.approval_id}` })).body).toMatchObject({
      status: 'pending',
      passport_id: passport.passport_id,
      gate_id: gateId,
      request_hash: requestHash,
      amount_usd: 25,
    });
    await resolve(call.approval_id, 'deny');
    // What was handed over is free for others; the rest stays leased.
    expect(await heldUsd(api.deps, gateId)).toBe(15);
    expect(await answerTo(call)).toEqual(first);
    expect(await leasedUnits()).toBe(15_000_000);
  });

  it('of one too many is refused, however often it comes, and leaves the money with the holder', async () => {
    await lease(60_000_000);
    const first = suspend({ held: [heldMoney(10_000_000)], request_hash: hashOf(2) }, 10_000_000);
    await answerTo(first);
    await askAsManyAsMay(api.deps, { passportId: passport.passport_id, gateId, waiting: 1 });
    const call = suspend();
    const blocked = { kind: 'blocked', reason: 'approvals_pending_exceeded', is_closed: true };
    expect(await answerTo(call)).toEqual(blocked);
    expect(await answerTo(call)).toEqual({ kind: 'voided' });
    expect(await answerTo(suspend())).toEqual(blocked);
    expect(await leasedUnits()).toBe(50_000_000);
    expectError(await api.call({ url: `/v1/approvals/${call.approval_id}` }), 'approval_not_found');
    // Who waits already is found, by its own call and by another one of the same request.
    expect(await answerTo(first)).toMatchObject({ approval_id: first.approval_id, is_new: true });
    const copy = suspend({ held: [heldMoney(10_000_000)], request_hash: hashOf(2) }, 10_000_000);
    expect(await answerTo(copy)).toMatchObject({ approval_id: first.approval_id, is_new: false });
    await resolve(first.approval_id, 'deny');
    expect(await answerTo(suspend())).toMatchObject({ kind: 'suspended', is_new: true });
  });

  it('that has found the approval of another one opens none when its call comes again, also when that is over', async () => {
    await lease(60_000_000);
    const first = suspend();
    await answerTo(first);
    const copy = suspend();
    const found = { kind: 'suspended', approval_id: first.approval_id, is_new: false };
    for (const _repeat of [1, 2]) expect(await answerTo(copy)).toMatchObject(found);
    expect(await answerTo(lookUp())).toMatchObject(found);
    await resolve(first.approval_id, 'deny');
    expect(await answerTo(copy)).toEqual({ kind: 'voided' });
    expect(await leasedUnits()).toBe(35_000_000);
    expectError(await api.call({ url: `/v1/approvals/${copy.approval_id}` }), 'approval_not_found');
  });

  it('takes no money that the holder never had', async () => {
    await lease(20_000_000);
    const call = suspend();
    expect(await answerTo(call)).toMatchObject({ kind: 'refused' });
    expect(await leasedUnits()).toBe(20_000_000);
    expectError(await api.call({ url: `/v1/approvals/${call.approval_id}` }), 'approval_not_found');
    // Nor of another's holder.
    const theirs = { ...suspend({}, 1_000_000), holder: 'ab'.repeat(16) };
    expect(await answerTo(theirs)).toMatchObject({ kind: 'refused' });
    const second = await connectSidecar(api);
    const stolen = {
      ...suspend({}, 1_000_000),
      sidecar_id: second.sidecarId,
      connection_id: second.connectionId,
    };
    expect(await answerTo(stolen)).toMatchObject({ kind: 'refused' });
    expect(await leasedUnits()).toBe(20_000_000);
  });

  /** What its sidecar makes of that answer: it must not use the money besides. */
  it('is answered as before if its key got a PERMIT after it opened its approval', async () => {
    await lease(50_000_000);
    const first = suspend();
    await answerTo(first);
    await resolve(first.approval_id, 'approve');
    const copy = suspend({ idempotency_key: 'order-1' });
    expect(await answerTo(copy)).toMatchObject({ approval_id: copy.approval_id, is_new: true });
    const record = permitRecord({ amount_micro_usd: 25_000_000 });
    expect(await answerTo(permit({ approval_id: first.approval_id }, record))).toEqual({ kind: 'committed' });
    const again = await answerTo(copy);
    expect(again).toMatchObject({ kind: 'suspended', approval_id: copy.approval_id, is_new: true });
    expect(await statusOf(copy.approval_id)).toBe('pending');
    expect(fateOf(again, { isPermit: false, isWanted: true })).toBe('pass_on');
  });

  it('of a gate that has changed since is refused', async () => {
    await lease(25_000_000);
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: otherPolicy });
    expect(await answerTo(suspend())).toMatchObject({ kind: 'refused' });
    expect(await answerTo(suspend({ gate_version: 2 }))).toMatchObject({ kind: 'suspended' });
  });
});

describe('a look-up', () => {
  it('answers an approval that refuses the request before a PERMIT of the key', async () => {
    const approvalId = await approved();
    expect(await answerTo(permit({ approval_id: approvalId }))).toEqual({ kind: 'committed' });
    const about = (change: object) => answerTo(lookUp({ idempotency_key: 'order-1', ...change }));
    for (const ownId of [null, approvalId])
      expect(await about({ approval_id: ownId })).toMatchObject({ kind: 'replayed' });
    const mismatch = { kind: 'approval', standing: 'mismatch', expires_at_ms: null };
    expect(await about({ approval_id: newApprovalId() })).toEqual(mismatch);
    expect(await about({ approval_id: approvalId, request_hash: hashOf(2) })).toEqual(mismatch);
    expect(await about({ request_hash: hashOf(2) })).toEqual({ kind: 'conflict' });
  });
});

describe('a passport that was revoked meanwhile', () => {
  it('gets neither a PERMIT nor an approval nor the first PERMIT again', async () => {
    await lease(25_000_000);
    await answerTo(permit());
    await revoke();
    const record = permitRecord();
    const refused = { kind: 'blocked', reason: 'passport_revoked' };
    const closed = { ...refused, is_closed: true };
    expect(await answerTo(permit({ idempotency_key: 'other' }, record))).toEqual(closed);
    expect(await answerTo(permit({}, record))).toEqual(refused);
    expect(await answerTo(suspend())).toEqual(closed);
    expect(await answerTo(lookUp({ idempotency_key: 'order-1' }))).toEqual(refused);
    expect(await isStored(record.id)).toBe(false);
    expect(await leasedUnits()).toBe(25_000_000);
  });

  it('is blocked when its settlement is repeated too: its sidecar voids it', async () => {
    await lease(25_000_000);
    const [settled, waiting] = [permit(), suspend({ request_hash: hashOf(5) })];
    await answerTo(settled);
    await answerTo(waiting);
    await revoke();
    for (const again of [settled, waiting])
      expect(await answerTo(again)).toEqual({ kind: 'blocked', reason: 'passport_revoked' });
  });
});

describe('a sidecar may speak', () => {
  it('of gates of its account only, and of passports with a token that it has seen', async () => {
    const account = await api.createAccount();
    const foreign = await api.createGate({}, account.key);
    const strange = { gate_id: foreign.gate_id };
    const record = permitRecord(strange);
    expect(await answerTo(permit(strange, record))).toMatchObject({
      kind: 'refused',
      message: expect.stringMatching(/gate_id/),
    });
    expect(await answerTo(lookUp(strange))).toMatchObject({ kind: 'refused' });
    expect(await answerTo(suspend({ ...strange, held: [] }))).toMatchObject({ kind: 'refused' });
    const unseen = { token_hash: 'ab'.repeat(32) };
    expect(await answerTo(permit(unseen, permitRecord(unseen)))).toMatchObject({ kind: 'refused' });
    expect(await answerTo(lookUp(unseen))).toMatchObject({ kind: 'refused' });
  });

  it('with its newest connection only, and with the scope for it', async () => {
    const first = await connectSidecar(api);
    const again = await connectSidecar(api, { sidecarId: first.sidecarId });
    const by = (one: ConnectedSidecar) => ({ sidecar_id: one.sidecarId, connection_id: one.connectionId });
    const reply = await settle(permit(by(first)));
    expect([reply.status, reply.body.error.code]).toEqual([409, 'connection_superseded']);
    const unknown = await settle(permit({ connection_id: '9999999999999.x' }));
    expect([unknown.status, unknown.body.error.code]).toEqual([409, 'connection_unknown']);
    expect(await answerTo(permit(by(again)))).toEqual({ kind: 'committed' });
    const { key } = await api.createKey({ scopes: ['enforcement:check'] });
    expectError(await settle(permit(), key), 'insufficient_scope');
  });
});

describe('a settlement that is not well formed', () => {
  it.each<[string, () => Flat, string]>([
    ['of no kind', () => ({ ...lookUp(), kind: 'other' }), 'kind'],
    ['without a field', () => ({ ...lookUp(), request_hash: undefined }), 'request_hash'],
    ['that is a permit of nothing', () => permit({ idempotency_key: null }), 'idempotency_key'],
    ['whose record is of another request', () => permit({ request_hash: hashOf(4) }), 'record'],
    [
      'that holds one window twice',
      () => suspend({ held: [heldMoney(25_000_000), heldMoney(25_000_000)] }),
      'held',
    ],
    [
      'that holds requests',
      () => suspend({ held: [{ ...heldMoney(25_000_000), kind: 'gate_rate' }] }),
      'held',
    ],
    ['that holds another amount', () => suspend({ held: [heldMoney(24_000_000)] }), 'held'],
    [
      'that waits too long',
      () => suspend({ expires_in_ms: limits.approvalExpiryMsMax + 1 }),
      'expires_in_ms',
    ],
  ])('%s is refused, and harms no other of its call', async (_name, malformed, param) => {
    const { settlements, ...envelope } = settlementCall(malformed());
    const other = settlementCall(permit()).settlements;
    const body = { ...envelope, settlements: [...settlements, ...other] };
    const reply = await api.call({ url: '/v1/sync/settlements', key: sidecar.key, body });
    expect(reply.body.answers).toEqual([
      { kind: 'refused', message: expect.stringContaining(param) },
      { kind: 'committed' },
    ]);
  });

  it('that is too old is not begun, and does not affect the others of its call', async () => {
    const body = settlementCall(permit());
    const late = settlementCall({ ...permit({ idempotency_key: 'order-2' }, permitRecord()), wanted_ms: 0 });
    const held = await api.deps.sql.begin(async (tx) => {
      await tx`LOCK TABLE api_keys`;
      const settlements = [...late.settlements, ...body.settlements];
      const reply = api.call({
        url: '/v1/sync/settlements',
        key: sidecar.key,
        body: { ...body, settlements },
      });
      await until(async () => (await waitingForLocks(api.deps.sql)) > 0, {
        what: 'the key of the caller is being read',
      });
      return { reply };
    });
    expect((await held.reply).body.answers).toEqual([{ kind: 'late' }, { kind: 'committed' }]);
  });
});

describe('a second copy at ingest', () => {
  it('is skipped if identical, and refused otherwise', async () => {
    const own = await connectSidecar(api);
    const by = { sidecar_id: own.sidecarId, connection_id: own.connectionId };
    const record = permitRecord();
    expect(await answerTo(permit(by, record))).toEqual({ kind: 'committed' });
    const next = permitRecord();
    expect((await own.send(1, [record, next])).body).toMatchObject({ next_seq: 3 });
    expect(await isStored(next.id)).toBe(true);
    const changed = { ...record, amount_micro_usd: 1 };
    expect((await own.send(3, [changed])).body.error).toMatchObject({
      code: 'record_refused',
      refused: [{ seq: 3, message: 'an attestation with this id already exists' }],
    });
    const { body } = await api.call({ url: `/v1/attestations?passport_id=${passport.passport_id}` });
    expect(body.attestations).toHaveLength(2);
  });

  it('of another sidecar is not the same', async () => {
    const record = permitRecord();
    await answerTo(permit({}, record));
    const second = await connectSidecar(api);
    expect((await second.send(1, [record])).body.error.code).toBe('record_refused');
  });
});
