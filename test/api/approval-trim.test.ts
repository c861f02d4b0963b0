import { expect, it } from 'vitest';
import { removeEnded } from '../../control-plane/approvals/approval-store.ts';
import { approvalsLimits } from '../../control-plane/approvals/limits.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { startOwnApi } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

/** Approvals that ended long ago leave the database (contract §8). */
const api = useApi(startOwnApi);

const count = async () =>
  (await api.deps.sql<{ all: number }[]>`SELECT count(*) AS all FROM approvals`)[0]?.all ?? 0;
const isThere = async (id: string) => (await api.call({ url: `/v1/approvals/${id}` })).status === 200;
const keptMs = approvalsLimits.endedKeptMs + 2 * limits.approvalExpiryMsMax;

it('keeps an approval for 400 days after the latest end it may have, and those that wait', async () => {
  const [ended, waiting] = [await openAnApproval(api), await openAnApproval(api)];
  await api.call({ method: 'POST', url: `/v1/approvals/${ended.approvalId}/deny`, body: {} });
  const nowMs = api.deps.clock.now();
  const remove = (afterMs: number) => removeEnded(api.deps.sql, (nowMs + afterMs) as UnixMillis, 100);
  expect(await remove(keptMs - minuteMs)).toBe(0);
  expect(await isThere(ended.approvalId)).toBe(true);
  expect(await remove(keptMs + minuteMs)).toBe(1);
  expectError(await api.call({ url: `/v1/approvals/${ended.approvalId}` }), 'approval_not_found');
  // Its money is still held, whatever its age.
  expect(await isThere(waiting.approvalId)).toBe(true);
  // What remains is on record.
  const records = (await api.call({ url: '/v1/attestations?decision=SUSPEND' })).body.attestations;
  expect(records).toContainEqual(
    expect.objectContaining({ resolution: 'denied', refers_to: ended.approvalId }),
  );
  const { entries } = (await api.call({ url: `/v1/audit?target=${ended.approvalId}` })).body;
  expect(entries).toMatchObject([{ operation: 'denyApproval' }]);
});

it('keeps an approval with a signed answer, which is evidence', async () => {
  const { approvalId } = await openAnApproval(api);
  await api.call({ method: 'POST', url: `/v1/approvals/${approvalId}/deny`, body: {} });
  await api.deps.sql`
    INSERT INTO approval_answers (approval_id, place, user_id, answer, at_ms, assertion)
    VALUES (${approvalId}, 1, 'usr_1', 'denied', 0, '{}')`;
  const late = (api.deps.clock.now() + keptMs + minuteMs) as UnixMillis;
  while ((await removeEnded(api.deps.sql, late, 1_000)) > 0);
  expect(await api.deps.sql`SELECT FROM approvals WHERE approval_id = ${approvalId}`).toHaveLength(1);
  await api.deps.sql`UPDATE approval_answers SET assertion = NULL WHERE approval_id = ${approvalId}`;
  expect(await removeEnded(api.deps.sql, late, 1_000)).toBe(1);
});

it('goes in bounded steps, by an index, beside other replicas', async () => {
  const { approvalId } = await openAnApproval(api);
  await api.call({ method: 'POST', url: `/v1/approvals/${approvalId}/deny`, body: {} });
  await api.deps.sql`
    INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object('approval_id',
      'appr_00000' || lpad(n::text, 5, '0') || '0000000000000000'))).*
    FROM approvals a, generate_series(1, 5000) AS n WHERE a.approval_id = ${approvalId}`;
  const before = await count();
  const nowMs = api.deps.clock.now();
  const others = [1, 2, 3].map(() => connect({ url: api.databaseUrl, connectionsMax: 1 }));
  const removed = await Promise.all(others.map((sql) => removeEnded(sql, nowMs, 1_000)));
  await Promise.all(others.map((sql) => sql.end()));
  expect(Math.max(...removed)).toBe(1_000);
  expect(await count()).toBe(before - removed.reduce((sum, each) => sum + each, 0));
  while ((await removeEnded(api.deps.sql, nowMs, 1_000)) > 0);
  expect(await count()).toBe(before - 5_000);
  const plan = await api.deps.sql<{ 'QUERY PLAN': string }[]>`
    EXPLAIN SELECT approval_id FROM approvals WHERE approval_id < 'appr_0' AND due_at_ms IS NULL
    ORDER BY approval_id LIMIT 1000`;
  expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain('approvals_pkey');
});
