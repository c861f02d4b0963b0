import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Database, Transaction } from '../../control-plane/base/database.ts';
import { decideRequest } from '../../control-plane/decisions/decide-request.ts';
import { decisionsLimits } from '../../control-plane/decisions/limits.ts';
import { settleBatch } from '../../control-plane/decisions/settle-batch.ts';
import { tokenVerifier } from '../../control-plane/decisions/token-verifier.ts';
import type { Deps } from '../../control-plane/deps.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { AccountId, GateId } from '../../shared/model/ids.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { parseRequestFacts } from '../../shared/wire/api/check.ts';
import { parseSettlementCall } from '../../shared/wire/sync/settlement.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { until } from '../support/base/until.ts';
import { callerOfAccount } from '../support/data/caller.ts';
import { faultyDatabase } from '../support/database/faulty-sql.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, hashOf, heldUsd } from '../support/service/approvals.ts';
import { operatorOf } from '../support/service/exports.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  expectSoundStore,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: AccountId;
let sidecar: ConnectedSidecar;
let holder: string;
let gateId: GateId;
let passport: Reply['body'];

beforeAll(async () => {
  goToNoon(api);
  sidecar = await connectSidecar(api);
  accountId = (await operatorOf(api)).accountId;
});
beforeEach(startAnew);

async function startAnew(): Promise<void> {
  holder = Buffer.from(api.deps.random.bytes(16)).toString('hex');
  passport = await api.issuePassport();
  const constraints = { spend_limits: { daily_usd: 100 }, rate_limits: { requests_per_day: 10 } };
  gateId = (await api.createGate({ constraints })).gate_id;
}

/** More statements than any of the transactions has. */
const statementsMax = 60;

const countOf = async (rows: Promise<readonly { readonly count: number }[]>): Promise<number> =>
  (await rows)[0]?.count ?? 0;
const recordsOf = () =>
  countOf(
    api.deps
      .sql`SELECT count(*) AS count FROM attestations WHERE passport_id = ${passport.passport_id} AND decision = 'PERMIT'`,
  );
const claimsOf = () =>
  countOf(
    api.deps.sql`SELECT count(*) AS count FROM settlements WHERE passport_id = ${passport.passport_id}`,
  );
/** PERMITs without those that were voided. */
const standingPermits = () =>
  countOf(api.deps.sql`
    SELECT count(*) AS count FROM attestations a WHERE passport_id = ${passport.passport_id} AND decision = 'PERMIT'
      AND resolution IS NULL AND NOT EXISTS (SELECT FROM attestations v WHERE v.refers_to = a.attestation_id)`);
/** A call that settles one request. */
const settle = async (deps: Deps, account: AccountId, call: ReturnType<typeof parseSettlementCall>) => {
  const outcome = await settleBatch(deps, { accountId: account, keyId: 'key_of_the_test' }, call);
  return outcome.kind === 'answered' ? outcome.answers[0] : outcome;
};
const leasedUnits = () =>
  countOf(
    api.deps.sql`SELECT coalesce(sum(units), 0)::bigint AS count FROM quota_leases WHERE holder = ${holder}`,
  );

const bound = () => ({
  sidecar_id: sidecar.sidecarId,
  connection_id: sidecar.connectionId,
  holder,
  passport_id: passport.passport_id,
  token_hash: sha256Hex(passport.jwt),
  gate_id: gateId,
  gate_version: 1,
  request_hash: hashOf(1),
  idempotency_key: 'order-1',
});
const ofGate = () => ({
  kind: 'gate_spend',
  gate_id: gateId,
  passport_id: null,
  token_hash: null,
  window: 'day',
});

function suspendCall(approvalId: string) {
  const nowMs = api.deps.clock.now();
  const body = {
    ...bound(),
    idempotency_key: null,
    kind: 'suspend',
    approval_id: approvalId,
    permission_key: 'orders:create',
    amount_micro_usd: 25_000_000,
    constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'approval'],
    pii: [],
    expires_in_ms: 300_000,
    held: [{ ...ofGate(), starts_at_ms: windowAt('day', nowMs).startsAtMs, units: 25_000_000 }],
  };
  return parseSettlementCall(settlementCall(body), accountId);
}

async function lease(): Promise<void> {
  const asks = [{ ...ofGate(), units_min: 40_000_000, units_needed: 40_000_000, units_ahead: 0 }];
  const { sidecar_id, connection_id } = bound();
  const body = { sidecar_id, connection_id, holder, seq: 1, returns: [], asks };
  const reply = await api.call({ url: '/v1/sync/leases', key: sidecar.key, body });
  expect(reply.body.grants).toMatchObject([{ granted: 40_000_000 }]);
}

const newApprovalId = () => api.deps.random.newId('appr', api.deps.clock.now());
const faulty = (failAt: number): { readonly deps: Deps; readonly counted: { statements: number } } => {
  const counted = faultyDatabase(api.deps.sql, failAt);
  return { deps: { ...api.deps, sql: counted.sql }, counted };
};

describe('whichever statement fails, or the answer to the commit,', () => {
  it('a permit is settled whole or not at all, and its repeat settles it', async () => {
    for (let failAt = 0; ; failAt++) {
      expect(failAt).toBeLessThan(statementsMax);
      await startAnew();
      await lease();
      const approvalId = newApprovalId();
      await settle(api.deps, accountId, suspendCall(approvalId));
      await api.call({ url: `/v1/approvals/${approvalId}/approve`, body: {} });
      const charged = { request_hash: hashOf(1), amount_micro_usd: 25_000_000 };
      const record = recordOf(api, { gateId, passport }, charged);
      const call = parseSettlementCall(
        settlementCall({ ...bound(), kind: 'permit', approval_id: approvalId, record }),
        accountId,
      );
      const { deps, counted } = faulty(failAt);
      const first = await settle(deps, accountId, call).catch(() => null);
      const wanted = first !== null || failAt === 0 ? 1 : 0;
      const status = async () => (await api.call({ url: `/v1/approvals/${approvalId}` })).body.status;
      expect(await recordsOf(), `failing at ${failAt}`).toBe(wanted);
      expect(await claimsOf()).toBe(wanted);
      expect(await status()).toBe(wanted === 1 ? 'used' : 'approved');
      expect(await settle(api.deps, accountId, call)).toEqual({ kind: 'committed' });
      expect([await recordsOf(), await claimsOf(), await status()]).toEqual([1, 1, 'used']);
      if (first !== null) {
        expect(counted.statements).toBeLessThan(failAt);
        break;
      }
    }
    await expectSoundStore(api);
  });

  it('a suspend takes the money over once', async () => {
    for (let failAt = 0; ; failAt++) {
      expect(failAt).toBeLessThan(statementsMax);
      await startAnew();
      await lease();
      const call = suspendCall(newApprovalId());
      const { deps, counted } = faulty(failAt);
      const first = await settle(deps, accountId, call).catch(() => null);
      const isTaken = first !== null || failAt === 0;
      expect(await leasedUnits(), `failing at ${failAt}`).toBe(isTaken ? 15_000_000 : 40_000_000);
      expect(await settle(api.deps, accountId, call)).toMatchObject({ kind: 'suspended', is_new: true });
      expect(await leasedUnits()).toBe(15_000_000);
      if (first !== null) {
        expect(counted.statements).toBeLessThan(failAt);
        break;
      }
    }
  });

  it('a check of the control plane takes all or nothing, and with its key is charged once', async () => {
    for (let failAt = 0; ; failAt++) {
      expect(failAt).toBeLessThan(statementsMax);
      await startAnew();
      const { deps, counted } = faulty(failAt);
      const first = await check(deps).catch(() => null);
      const isTaken = first !== null || failAt === 0;
      expect(await recordsOf(), `failing at ${failAt}`).toBe(isTaken ? 1 : 0);
      expect(await heldUsd(api.deps, gateId)).toBe(isTaken ? 10 : 0);
      // Its client got an error: as soon as the database answers, nothing of it stands.
      if (failAt === 0) await until(async () => (await claimsOf()) === 0, { what: 'the void of the check' });
      const again = await check(api.deps);
      expect(again.kind).toBe(first === null ? 'decided' : 'replayed');
      expect(await heldUsd(api.deps, gateId)).toBe(10);
      expect(await standingPermits()).toBe(1);
      if (first !== null) {
        expect(counted.statements).toBeLessThan(failAt);
        break;
      }
    }
    await expectSoundStore(api);
  });
});

const order = { permission_key: 'orders:create', amount: 10, idempotency_key: 'order-1' };
const check = (deps: Deps, asked: Readonly<Record<string, unknown>> = order) =>
  decideRequest(deps, {
    caller: callerOfAccount(api.deps, accountId),
    gateId,
    token: passport.jwt,
    verdict: tokenVerifier(api.deps)(passport.jwt),
    asked,
    request: parseRequestFacts(asked),
    isTest: false,
  });

describe('a check of the control plane whose commit gets no answer', () => {
  const standingIs = (count: number, what: string) =>
    until(async () => (await standingPermits()) === count, { what });
  const statuses = async () =>
    (
      await api.deps.sql<{ status: string }[]>`
        SELECT status FROM approvals WHERE passport_id = ${passport.passport_id} ORDER BY approval_id`
    ).map(({ status }) => status);

  it('leaves no request that waits for a person: its client got an error', async () => {
    const constraints = { approvals: { above_usd: 5 }, spend_limits: { daily_usd: 100 } };
    gateId = (await api.createGate({ constraints })).gate_id;
    await expect(check(faulty(0).deps)).rejects.toThrow('the commit was answered');
    await until(async () => (await statuses()).join() === 'expired', { what: 'the end of the approval' });
    const again = await check(api.deps);
    expect(again).toMatchObject({ kind: 'decided', decision: { outcome: 'SUSPEND' } });
    expect(await statuses()).toEqual(['expired', 'pending']);
  });

  /** A PERMIT of a sidecar for the same key and request; returns its record. */
  const settleFirst = async (): Promise<SpooledRecord> => {
    await lease();
    const request_hash = parseRequestFacts(order).requestHash;
    const record = recordOf(api, { gateId, passport }, { request_hash });
    const permit = { ...bound(), request_hash, kind: 'permit', approval_id: null, record };
    const call = parseSettlementCall(settlementCall(permit), accountId);
    expect(await settle(api.deps, accountId, call)).toEqual({ kind: 'committed' });
    return record;
  };
  const voidFirst = async ({ id, timestamp_ms }: SpooledRecord, seq: number): Promise<void> => {
    const entry = { voids: id, took: [], amount_micro_usd: null, timestamp_ms };
    const reply = await sidecar.send(seq, [entry as unknown as SpooledRecord]);
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  };

  it('reads nothing: the PERMIT that it has found is voided by its own client', async () => {
    const first = await settleFirst();
    await expect(check(faulty(0).deps)).rejects.toThrow('the commit was answered');
    await voidFirst(first, 1);
    await standingIs(0, 'the void of the PERMIT');
  });

  it('while one that was answered keeps the PERMIT that it has read', async () => {
    const first = await settleFirst();
    expect(await check(api.deps)).toMatchObject({ kind: 'replayed', first: { attestationId: first.id } });
    await voidFirst(first, 2);
    expect(await standingPermits()).toBe(1);
  });
});

describe('a check that others are quicker than', () => {
  /**
   * The database, with `meanwhile` called before each statement that takes units, and `undone` after each
   * transaction that fails.
   */
  const interrupted = (
    sql: Database,
    meanwhile: () => Promise<unknown>,
    undone: () => Promise<unknown> = async () => undefined,
  ): Database =>
    new Proxy(sql, {
      get: (target, name) =>
        name !== 'begin'
          ? Reflect.get(target, name)
          : (options: string, work: (tx: Transaction) => unknown) =>
              target
                .begin(options, (tx) =>
                  work(
                    new Proxy(tx, {
                      apply: (query, self, args) => {
                        const [parts] = args;
                        const text = Array.isArray(parts) ? parts.join('') : '';
                        if (!text.includes('UPDATE quota_windows')) return Reflect.apply(query, self, args);
                        return meanwhile().then(() => Reflect.apply(query, self, args));
                      },
                    }),
                  ),
                )
                .catch(async (error: unknown) => {
                  await undone();
                  throw error;
                }),
    });
  const setUsed = (micro: number) => api.deps.sql`
    INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    VALUES (${`gate_spend:${gateId}`}, 'day', ${today().startsAtMs}, ${today().endsAtMs}, ${micro})
    ON CONFLICT (counter, window_name, starts_at_ms) DO UPDATE SET leased = excluded.leased`;
  const today = () => windowAt('day', api.deps.clock.now());

  it('decides anew on what they have left', async () => {
    const sql = interrupted(api.deps.sql, () => setUsed(95_000_000));
    const answer = await check({ ...api.deps, sql });
    expect(answer).toMatchObject({
      decision: { reason: 'spend_limit_exceeded', limitMiss: { used: 95_000_000 } },
    });
    expect(await recordsOf()).toBe(0);
    expect(await claimsOf()).toBe(0);
  });

  it('pauses after the maximum of immediate tries, and takes the approval that is there then', async () => {
    let tries = 0;
    const sql = interrupted(
      api.deps.sql,
      async () => {
        tries += 1;
        if (tries <= 2 * decisionsLimits.enforcementTriesMax) await setUsed(95_000_000);
      },
      () => setUsed(0),
    );
    expect(await check({ ...api.deps, sql })).toMatchObject({ decision: { outcome: 'PERMIT' } });
    expect(tries).toBeGreaterThan(2 * decisionsLimits.enforcementTriesMax);
    await expectSoundStore(api);
  });

  it('gives up where that happens each time: overloaded, and nothing taken', async () => {
    let tries = 0;
    const sql = interrupted(
      api.deps.sql,
      async () => {
        tries += 1;
        await setUsed(95_000_000);
      },
      () => setUsed(0),
    );
    await expect(check({ ...api.deps, sql })).rejects.toMatchObject({ code: 'overloaded' });
    expect(tries).toBeGreaterThanOrEqual(decisionsLimits.enforcementTriesMax);
    expect(await recordsOf()).toBe(0);
    expect(await claimsOf()).toBe(0);
    await expectSoundStore(api);
  });
});
