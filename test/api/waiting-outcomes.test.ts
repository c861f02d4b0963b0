import { beforeAll, expect, it } from 'vitest';
import { appendRecords } from '../../control-plane/attestations/append-records.ts';
import { findStoredRecords } from '../../control-plane/attestations/stored-records.ts';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { outcomesLimits } from '../../control-plane/outcomes/limits.ts';
import { takeShipped } from '../../control-plane/outcomes/reported-store.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, AttestationId, SidecarId } from '../../shared/model/ids.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { useApi } from '../support/service/use-api.ts';

/** Those of three turns. */
const waiting = 3 * outcomesLimits.outcomesPerTurnMax;

const api = useApi(startOwnApi);
let accountId: AccountId;
let sidecarId: SidecarId;
beforeAll(async () => {
  goToNoon(api);
  api.stopClock();
  const [operator] = await api.deps.sql<{ id: AccountId }[]>`
    SELECT account_id AS id FROM accounts WHERE is_operator`;
  accountId = must(operator, 'there is a first account').id;
  sidecarId = api.deps.random.newId('side', api.deps.clock.now());
});

/** As a batch of a sidecar brings them. */
const report = (ids: readonly AttestationId[]): Promise<unknown> => {
  const nowMs = api.deps.clock.now();
  const outcomes = ids.map((attestationId) => ({
    kind: 'outcome' as const,
    attestationId,
    given: { outcome: 'served' as const, amountMicroUsd: null, detail: null },
    callerMode: 'live' as const,
    reportedAtMs: nowMs,
  }));
  return api.deps.sql.begin((tx) =>
    takeShipped(api.deps)(tx, outcomes, { source: sidecarId, sourceAccount: accountId, nowMs }),
  );
};
const newIds = (count: number): readonly AttestationId[] =>
  Array.from({ length: count }, () => api.deps.random.newId('att', api.deps.clock.now()));
const held = async (): Promise<AttestationId> => {
  const { gate_id } = await api.createGate({ constraints: { spend_limits: { daily_usd: 100 } } });
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  const request = { permission_key: 'orders:create', amount: 10, hold: true };
  return (await api.call({ url: `/v1/gates/${gate_id}/check`, body: { passport: jwt, request } })).body
    .attestation_id;
};
/** The record of a held PERMIT, stored under this id: a spool that was cut off has come. */
const storeLate = async (id: AttestationId): Promise<void> => {
  const like = await held();
  await api.deps.sql.begin(async (tx) => {
    const found = must((await findStoredRecords(tx, [like])).get(like), 'the PERMIT is on record');
    await appendRecords(tx, api.deps, [{ ...found, record: { ...found.record, id } }]);
  });
};
const holdOf = async (id: AttestationId): Promise<string> =>
  (await api.call({ url: `/v1/attestations/${id}/outcome` })).body.hold.status;
const countOf = async (status: string): Promise<number> =>
  (await api.call({ url: `/v1/outcomes?status=${status}&limit=1` })).body.total;
const applyAll = async (): Promise<number> => {
  let looked = 0;
  for (let count = 1; count > 0; looked += count) count = await applyReported(api.deps);
  return looked;
};

it('many outcomes without their PERMITs hold up no other, and end after a week', async () => {
  const unknown = newIds(waiting);
  await report(unknown);
  expect(await applyAll()).toBe(waiting);
  expect(await countOf('waiting')).toBe(waiting);
  // They are not due: another one is alone in its turn.
  const fresh = await held();
  await report([fresh]);
  expect(await applyReported(api.deps)).toBe(1);
  expect(await holdOf(fresh)).toBe('settled');

  // All of them are due, before the next one: it has its turn after theirs, and no turn is larger than that.
  api.advance(outcomesLimits.lookAgainMsMax);
  const next = await held();
  await report([next]);
  expect(await applyAll()).toBe(waiting + 1);
  expect(await holdOf(next)).toBe('settled');
  expect(await applyReported(api.deps)).toBe(0);

  // The record of one of them comes days later.
  const late = must(unknown[waiting / 2], 'there are many');
  api.advance(outcomesLimits.outcomeWaitsMsMax - 2 * outcomesLimits.lookAgainMsMax);
  await storeLate(late);
  expect(await applyAll()).toBe(waiting);
  expect(await holdOf(late)).toBe('settled');
  expect(await countOf('waiting')).toBe(waiting - 1);

  api.advance(outcomesLimits.lookAgainMsMax);
  expect(await applyAll()).toBe(waiting - 1);
  expect(await countOf('waiting')).toBe(0);
  expect(await countOf('refused')).toBe(waiting - 1);
  expect(await countOf('refused')).toBe((await api.deps.sql`SELECT FROM reported_outcomes`).count);
});
