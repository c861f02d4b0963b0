import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FoundApproval, readPresentedApproval } from '../../control-plane/approvals/approval-store.ts';
import { consumeApproval } from '../../control-plane/approvals/consume-approval.ts';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { approvalsLimits } from '../../control-plane/approvals/limits.ts';
import { startApprovalSweep } from '../../control-plane/approvals/sweep-approvals.ts';
import type { Deps } from '../../control-plane/deps.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApprovalId, AttestationId, GateId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { expectWithin, timeUntil } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { codedError, faultySql } from '../support/database/faulty-sql.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { askApproval, goToNoon, hashOf, heldUsd, openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { ownerOf } from '../support/service/exports.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
afterAll(() => expectSoundStore(api));

type Opened = Awaited<ReturnType<typeof openAnApproval>>;
let hashes = 0xf000;
const freshHash = (): string => {
  hashes += 1;
  return hashOf(hashes);
};
const get = async (id: string): Promise<Reply['body']> =>
  (await api.call({ url: `/v1/approvals/${id}` })).body;
const resolve = (id: string, word: 'approve' | 'deny') =>
  api.call({ method: 'POST', url: `/v1/approvals/${id}/${word}` });
const held = (gateId: string) => heldUsd(api.deps, gateId);
const attestationId = (): AttestationId => api.deps.random.newId('att', api.deps.clock.now());

/** The clock stands still at that moment. */
const at = (nowMs: number): Deps => ({
  ...api.deps,
  clock: { now: () => nowMs as UnixMillis, monotonic: api.deps.clock.monotonic },
});

const bindingOf = (opened: Opened, requestHash: string) => ({
  ...{ passportId: opened.passportId as PassportId, gateId: opened.gateId as GateId, gateVersion: 1 },
  tokenUser: '',
  requestHash,
});
type Binding = ReturnType<typeof bindingOf>;

const consume = (
  approvalId: ApprovalId,
  binding: Binding,
  { by = attestationId(), nowMs = api.deps.clock.now() as number } = {},
): Promise<'consumed' | FoundApproval> =>
  api.deps.sql
    .begin(async (tx) => {
      const outcome = await consumeApproval(tx, approvalId, binding, by, nowMs as UnixMillis);
      return { outcome };
    })
    .then(({ outcome }) => outcome);

/** An approved approval that holds 25 USD. */
async function approved(): Promise<{ readonly opened: Opened; readonly binding: Binding }> {
  const requestHash = freshHash();
  const opened = await openAnApproval(api, { requestHash });
  expect((await resolve(opened.approvalId, 'approve')).status).toBe(200);
  return { opened, binding: bindingOf(opened, requestHash) };
}

describe('opening', () => {
  it('recognises a repeated settlement by its id, also after the approval has ended', async () => {
    const requestHash = freshHash();
    const first = await openAnApproval(api, { requestHash });
    const { approvalId, expiresAtMs } = first;
    const repeat = () => askApproval(api.deps, { ...first, requestHash });
    expect(await repeat()).toEqual({ approvalId, expiresAtMs, isNew: true, isRepeat: true });
    await resolve(approvalId, 'deny');
    expect(await repeat()).toEqual({ approvalId, expiresAtMs, isNew: true, isRepeat: true });
    expect(await held(first.gateId)).toBe(0);
  });

  it('refuses an id that belongs to another request', async () => {
    const first = await openAnApproval(api);
    const stolen = openAnApproval(api, { approvalId: first.approvalId });
    await expect(stolen).rejects.toBeInstanceOf(ApiError);
    await expect(stolen).rejects.toMatchObject({ code: 'invalid_request', param: 'approval_id' });
  });

  it('is not blocked by an expired one, which still expires once', async () => {
    const requestHash = freshHash();
    const old = await openAnApproval(api, { requestHash, expiresInMs: 1_000 });
    api.advance(1_000);
    const next = await askApproval(api.deps, { ...old, approvalId: attempt(), requestHash });
    expect(next).toMatchObject({ isNew: true, isRepeat: false });
    expect(next.approvalId).not.toBe(old.approvalId);
    expect((await get(old.approvalId)).status).toBe('expired');
    await expireApprovals(api.deps);
    expect(await held(old.gateId)).toBe(25);
    expect(await resolutionsOf(old.passportId)).toEqual(['expired']);
    expect((await get(next.approvalId)).status).toBe('pending');
  });
});

describe('the money that is held', () => {
  it('is freed for an unresolved request: at its end, not before, and once', async () => {
    const first = await openAnApproval(api, { expiresInMs: 1_000 });
    await askApproval(api.deps, { ...first, approvalId: attempt(), amountUsd: 7, expiresInMs: 5_000_000 });
    expect(await held(first.gateId)).toBe(32);
    await expireApprovals(at(first.expiresAtMs - 1));
    expect(await held(first.gateId)).toBe(32);
    expect(await expireApprovals(at(first.expiresAtMs))).toBeGreaterThan(0);
    expect(await held(first.gateId)).toBe(7);
    expect(await expireApprovals(at(first.expiresAtMs))).toBe(0);
    expect(await held(first.gateId)).toBe(7);
  });

  it('is freed once when replicas sweep at the same moment, each approval attested once', async () => {
    const { gate_id: gateId } = await api.createGate();
    const { passport_id: passportId } = await api.issuePassport();
    for (let i = 0; i < 12; i++) await askApproval(api.deps, { passportId, gateId, expiresInMs: 1_000 });
    await askApproval(api.deps, { passportId, gateId, amountUsd: 3 });
    api.advance(1_000);
    const replica = await secondControlPlane(api);
    const swept = await Promise.all([api.deps, replica.deps, api.deps, replica.deps].map(expireApprovals));
    await replica.close();
    expect(swept.reduce((sum, count) => sum + count)).toBe(12);
    expect(await held(gateId)).toBe(3);
    expect(await resolutionsOf(passportId)).toEqual(Array(12).fill('expired'));
  });

  it('is free when an approved request does not come again in time, and stays held until then', async () => {
    const { opened } = await approved();
    const { expires_at } = await get(opened.approvalId);
    const endMs = Date.parse(expires_at);
    expect(endMs).toBeGreaterThan(opened.expiresAtMs);
    await expireApprovals(at(endMs - 1));
    expect(await held(opened.gateId)).toBe(25);
    await expireApprovals(at(endMs));
    expect(await held(opened.gateId)).toBe(0);
    expect(await resolutionsOf(opened.passportId)).toEqual(['approved', 'expired']);
    expect((await get(opened.approvalId)).status).toBe('expired');
  });

  it('stays held when what frees it is cut off, and is free after the next attempt', async () => {
    const { approvalId, gateId, passportId } = await openAnApproval(api, { expiresInMs: 20_000 });
    api.deps.appending.isStopped = true;
    expectError(await resolve(approvalId, 'deny'), 'service_unavailable');
    api.advance(20_000);
    await expect(expireApprovals(api.deps)).rejects.toMatchObject({ code: 'service_unavailable' });
    api.deps.appending.isStopped = false;
    expect(await held(gateId)).toBe(25);
    expect(await resolutionsOf(passportId)).toEqual([]);
    await expireApprovals(api.deps);
    expect(await held(gateId)).toBe(0);
    expect(await resolutionsOf(passportId)).toEqual(['expired']);
  });
});

describe('an approval that cannot expire', () => {
  const brokenHold = JSON.stringify([{ counter: 'a secret', window: 'day', startsAtMs: 0, units: -1 }]);
  const wholeHold = async (approvalId: ApprovalId): Promise<string> => {
    const [row] = await api.deps.sql<{ holds: object[] }[]>`
      SELECT holds FROM approvals WHERE approval_id = ${approvalId}`;
    return JSON.stringify(row?.holds);
  };
  const writeHold = (approvalId: ApprovalId, holds: string) =>
    api.deps.sql`UPDATE approvals SET holds = ${holds}::text::jsonb WHERE approval_id = ${approvalId}`;

  it('is reported, holds up no other, and expires once it can', async () => {
    const others = [await openAnApproval(api), await openAnApproval(api)];
    const broken = await openAnApproval(api);
    const holds = await wholeHold(broken.approvalId);
    await writeHold(broken.approvalId, brokenHold);
    others.push(await openAnApproval(api));
    const lines: string[] = [];
    const error = (fields: object, message: string) =>
      void lines.push(`${JSON.stringify(fields)} ${message}`);
    const deps = { ...at(broken.expiresAtMs + 1_000), logger: { ...api.deps.logger, error } };
    await expireApprovals(deps);
    for (const { gateId, passportId } of others) {
      expect(await held(gateId)).toBe(0);
      expect(await resolutionsOf(passportId)).toEqual(['expired']);
    }
    expect(await held(broken.gateId)).toBe(25);
    expect(await resolutionsOf(broken.passportId)).toEqual([]);
    expect(lines).toEqual([expect.stringContaining(broken.approvalId)]);
    expect(lines.join()).not.toContain('a secret');

    // It is left alone for a while: however many there are, they do not stand before those that can expire.
    expect(await expireApprovals(deps)).toBe(0);
    expect(lines).toHaveLength(1);
    await writeHold(broken.approvalId, holds);
    await expireApprovals({ ...deps, ...at(broken.expiresAtMs + 1_000 + approvalsLimits.approvalPutOffMs) });
    expect(await held(broken.gateId)).toBe(0);
    expect(await resolutionsOf(broken.passportId)).toEqual(['expired']);
  });
});

describe('using an approval', () => {
  it('answers the state of the approval to the request that it belongs to', async () => {
    const requestHash = freshHash();
    const opened = await openAnApproval(api, { requestHash });
    const { approvalId, expiresAtMs } = opened;
    const binding = bindingOf(opened, requestHash);
    const standing = (nowMs: number) =>
      readPresentedApproval(api.deps.sql, approvalId, binding, nowMs as UnixMillis);
    expect(await standing(expiresAtMs - 1)).toEqual({ state: 'pending', expiresAtMs });
    expect(await standing(expiresAtMs)).toEqual({ state: 'expired', expiresAtMs });
    expect(await consume(approvalId, binding)).toEqual({ state: 'pending', expiresAtMs });
    await resolve(approvalId, 'approve');
    const endMs = Date.parse((await get(approvalId)).expires_at);
    expect(await standing(endMs - 1)).toEqual({ state: 'approved', expiresAtMs: endMs });
    expect(await consume(approvalId, binding)).toBe('consumed');
    expect(await standing(endMs)).toEqual({ state: 'used', expiresAtMs: endMs });
  });

  it('is a mismatch for another passport, gate, version, request or id, and uses nothing', async () => {
    const { opened, binding } = await approved();
    const other = await openAnApproval(api);
    const mismatch = { state: 'mismatch', expiresAtMs: null };
    const wrong: Partial<Binding>[] = [
      { passportId: other.passportId as PassportId },
      { gateId: other.gateId as GateId },
      { gateVersion: 2 },
      { requestHash: freshHash() },
    ];
    for (const change of wrong) {
      expect(await consume(opened.approvalId, { ...binding, ...change })).toEqual(mismatch);
    }
    expect(await consume(other.approvalId, binding)).toEqual(mismatch);
    expect(await consume(`appr_${'0'.repeat(26)}` as ApprovalId, binding)).toEqual(mismatch);
    expect(await consume(opened.approvalId, binding)).toBe('consumed');
  });

  it('works once: the same PERMIT gets the same answer again, also late; another gets approval_used', async () => {
    const { opened, binding } = await approved();
    const by = attestationId();
    expect(await consume(opened.approvalId, binding, { by })).toBe('consumed');
    api.advance(600_000);
    await expireApprovals(api.deps);
    expect(await consume(opened.approvalId, binding, { by })).toBe('consumed');
    expect(await consume(opened.approvalId, binding)).toMatchObject({ state: 'used' });
    // Whose request it was counts before whose record.
    const foreign = { ...binding, requestHash: freshHash() };
    expect(await consume(opened.approvalId, foreign, { by })).toMatchObject({ state: 'mismatch' });
  });

  it('looks again when it is approved between two looks', async () => {
    const requestHash = freshHash();
    const opened = await openAnApproval(api, { requestHash });
    const used = await api.deps.sql.begin(async (tx) => {
      const approving = new Proxy(tx, {
        apply: (target, self, [texts, ...values]: [readonly string[], ...unknown[]]) => {
          const query = () => Reflect.apply(target, self, [texts, ...values]);
          const isSecondLook = texts.join('').includes('attestation_id AS "attestationId" FROM approvals');
          return isSecondLook ? resolve(opened.approvalId, 'approve').then(query, query) : query();
        },
      });
      const nowMs = api.deps.clock.now();
      const binding = bindingOf(opened, requestHash);
      return [await consumeApproval(approving, opened.approvalId, binding, attestationId(), nowMs)];
    });
    expect(used).toEqual(['consumed']);
  });

  it('is either use or expiry, when both come at the same moment', async () => {
    for (let round = 0; round < 5; round++) {
      const { opened, binding } = await approved();
      const endMs = Date.parse((await get(opened.approvalId)).expires_at);
      const [outcome] = await Promise.all([
        consume(opened.approvalId, binding, { nowMs: endMs - 1 }),
        expireApprovals(at(endMs)),
      ]);
      const { status } = await get(opened.approvalId);
      expect(status).toBe(outcome === 'consumed' ? 'used' : 'expired');
      expect(await held(opened.gateId)).toBe(outcome === 'consumed' ? 25 : 0);
    }
  });
});

describe('the records of a resolution', () => {
  it('have the request and its resolution, in the chain of the passport', async () => {
    const { opened, binding } = await approved();
    const { body } = await api.call({ url: `/v1/attestations?passport_id=${opened.passportId}` });
    expect(body.attestations).toEqual([
      expect.objectContaining({
        ...{ chain_id: opened.passportId, sequence: 1, passport_id: opened.passportId },
        ...{ gate_id: opened.gateId, decision: 'SUSPEND', reason: 'approval_required' },
        ...{ resolution: 'approved', refers_to: opened.approvalId },
        ...{ source_account: (await ownerOf(api)).accountId, request_hash: binding.requestHash },
        ...{ permission_key: 'orders:create', amount_micro_usd: 25_000_000 },
        constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'spend_limit', 'approval'],
        ...{ pii: [{ pointer: '/customer/email', type: 'email' }], test: false, source: 'control-plane' },
      }),
    ]);
  });

  it('are read by the owner of the passport and by the owner of the gate, and verify for an outsider', async () => {
    const host = await api.createAccount();
    const visitor = await api.createAccount();
    const { passport_id: passportId } = await api.issuePassport({}, visitor.key);
    const { gate_id: gateId } = await api.createGate({}, host.key);
    const ends = ['approve', 'deny', null] as const;
    for (const word of ends) {
      const { approvalId } = await askApproval(api.deps, { passportId, gateId, expiresInMs: 60_000 });
      const url = `/v1/approvals/${approvalId}/${word}`;
      if (word !== null) expect((await api.call({ method: 'POST', url, key: host.key })).status).toBe(200);
    }
    api.advance(60_000);
    await expireApprovals(api.deps);

    const readBy = async (key: string): Promise<string[]> =>
      (await api.call({ url: `/v1/attestations?gate_id=${gateId}`, key })).body.attestations
        .map(({ resolution }: { resolution: string }) => resolution)
        .toSorted();
    const all = ['approved', 'denied', 'expired', 'expired'];
    expect(await readBy(host.key)).toEqual(all);
    expect(await readBy(visitor.key)).toEqual(all);
    const { body } = await api.call({ url: '/v1/attestations/export', key: visitor.key });
    const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    expect(verifyExport(Buffer.from(body), jwks)).toEqual({ chains: 1, records: 4 });
    expect(() => verifyExport(Buffer.from(body.replace('"denied"', '"approved"')), jwks)).toThrow();
  });

  it('count each request once at the gate, when nothing can follow it any more', async () => {
    const { opened } = await approved();
    const total = async () =>
      (await api.call({ url: `/v1/gates/${opened.gateId}` })).body.stats.total_requests;
    expect(await total()).toBe(0);
    api.advance(600_000);
    await expireApprovals(api.deps);
    expect(await total()).toBe(1);
  });
});

describe('events', () => {
  it('are sent to the owner of the gate only, for the request and for each resolution', async () => {
    const { accountId, key } = await api.createAccount();
    await subscribe(accountId);
    const stranger = await api.createAccount();
    const { gate_id: gateId } = await api.createGate({}, key);
    const { passport_id: passportId } = await api.issuePassport({}, stranger.key);
    const { approvalId } = await askApproval(api.deps, { passportId, gateId, expiresInMs: 30_000 });
    const [asked] = (await api.call({ url: '/v1/approvals', key })).body.items;
    const url = `/v1/approvals/${approvalId}/approve`;
    const said = await api.call({ method: 'POST', url, key });
    api.advance(30_000);
    await expireApprovals(api.deps);
    // Nobody subscribes to these.
    const other = await openAnApproval(api);
    await resolve(other.approvalId, 'deny');

    // In any order: those of the same millisecond have none.
    const events = await api.deps.sql<{ body: string }[]>`SELECT body FROM webhook_events`;
    const told = events.map(({ body }) => JSON.parse(body)).map(({ event, data }) => ({ event, data }));
    expect(told).toHaveLength(3);
    expect(told).toEqual(
      expect.arrayContaining([
        { event: 'approval.requested', data: asked },
        { event: 'approval.resolved', data: said.body },
        { event: 'approval.resolved', data: { ...said.body, status: 'expired' } },
      ]),
    );
    expect(asked.status).toBe('pending');
    expect(said.body.status).toBe('approved');
  });
});

describe('the sweep', () => {
  it('frees however much is over within two seconds, unasked, again and again, and stops', async () => {
    let one = await openAnApproval(api, { amountUsd: 1, expiresInMs: 30_000 });
    const isFree = async () => (await held(one.gateId)) === 0;
    await expectWithin(2_000, 'the money is free', async () => {
      one = await openAnApproval(api, { amountUsd: 1, expiresInMs: 30_000 });
      // At one batch a second they would take longer.
      await multiply(one, 4 * limits.approvalsPerSweepMax);
      expect(await held(one.gateId)).toBe(1 + 4 * limits.approvalsPerSweepMax);
      api.advance(30_000);
      const begun = startApprovalSweep(api.deps);
      const time = await timeUntil(isFree, 'the money to be free');
      await begun.stop();
      return time;
    });

    const sweep = startApprovalSweep(api.deps);
    await expectWithin(2_000, 'the money is free once more', async () => {
      await askApproval(api.deps, { ...one, approvalId: attempt(), expiresInMs: 1_000 });
      expect(await isFree()).toBe(false);
      api.advance(1_000);
      return timeUntil(isFree, 'the money to be free once more');
    });
    await sweep.stop();

    const { approvalId } = await askApproval(api.deps, { ...one, approvalId: attempt(), expiresInMs: 1_000 });
    api.advance(1_000);
    // Nobody sweeps any more; nevertheless it is over.
    expect((await get(approvalId)).status).toBe('expired');
    expect(await held(one.gateId)).toBe(25);
  });

  it('resumes when the database is reachable again, and logs the failure once', async () => {
    const { gateId } = await openAnApproval(api, { expiresInMs: 1_000 });
    const lines: string[] = [];
    const note = (_fields: object, text: string): void => void lines.push(text);
    const database = faultySql();
    const logger = { ...api.deps.logger, info: note, warn: note };
    database.fault = codedError('Error', 'ECONNREFUSED');
    api.advance(1_000);
    const sweep = startApprovalSweep({ ...api.deps, sql: database.wrap(api.deps.sql), logger });
    await until(() => lines.length > 0, { what: 'a line about the trouble' });
    database.fault = null;
    await until(async () => (await held(gateId)) === 0, { what: 'the money to be free' });
    await until(() => lines.length > 1, { what: 'a line about its end' });
    await sweep.stop();
    expect(lines).toEqual([
      'approvals could not be expired: their money stays held',
      'expiry of approvals has resumed',
    ]);
  });
});

const attempt = (): ApprovalId => api.deps.random.newId('appr', api.deps.clock.now());

/** An endpoint of the account that fetches what it subscribes to. */
async function subscribe(accountId: string): Promise<void> {
  await api.deps.sql`
    INSERT INTO webhooks (webhook_id, account_id, mode, events, status, sealed_secret, fetched_at_ms, created_at_ms, updated_at_ms)
    VALUES ('wh_of_a_test', ${accountId}, 'live', ARRAY['approval.requested', 'approval.resolved'], 'enabled', '', 0, 0, 0)`;
}

/** How many approvals `multiply` has made: each has a number of its own. */
let multiplied = 0;

/** So many more approvals like this one, as if each had been asked for. */
async function multiply({ approvalId, gateId }: Opened, times: number): Promise<void> {
  multiplied += times;
  await api.deps.sql`
    INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object(
      'approval_id', 'appr_' || lpad(n::text, 26, '0'), 'request_hash', 'sha256:' || lpad(n::text, 64, 'f')))).*
    FROM approvals a, generate_series(${multiplied - times + 1}::int, ${multiplied}::int) AS n WHERE approval_id = ${approvalId}`;
  await api.deps.sql`
    UPDATE quota_windows SET leased = leased * (1 + ${times}::int) WHERE counter = ${`gate_spend:${gateId}`}`;
}

async function resolutionsOf(passportId: string): Promise<string[]> {
  const rows = await api.deps.sql<{ resolution: string }[]>`
    SELECT resolution FROM attestations WHERE passport_id = ${passportId} ORDER BY sequence`;
  return rows.map(({ resolution }) => resolution);
}
