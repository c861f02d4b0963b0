import { expect, it } from 'vitest';
import { unuseApprovals, writeWithdrawn } from '../../control-plane/approvals/approval-store.ts';
import type { Transaction } from '../../control-plane/base/database.ts';
import { insertSettlements } from '../../control-plane/decisions/claim-settlements.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { ApprovalId, AttestationId } from '../../shared/model/ids.ts';
import { until } from '../support/base/until.ts';
import { newSettlement } from '../support/data/new-settlement.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { startOwnApi } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import {
  addGateRows,
  append,
  exportText,
  linesOf,
  newRecord,
  ownerOf,
  verifyText,
} from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

/** A database that sorts text as a language does, because the machine that made it has that language. */
const api = useApi(() => startOwnApi({ isDanish: true }));

it('exports chains in the order of the bytes of their ids, over several pages of chains', async () => {
  const owner = await ownerOf(api);
  const letters = [...'abcdefghjkmnpqrstvwxyz'];
  const gateIds = letters.flatMap((one) => letters.map((other) => `gate_${(one + other).padStart(26, '0')}`));
  await addGateRows(api, owner, gateIds);
  await append(
    api,
    gateIds.map((gateId) => newRecord(api, { passport: null, gateId, gateOwner: owner })),
  );
  const [byLanguage] = await api.deps.sql<
    { gate_id: string }[]
  >`SELECT gate_id FROM gates ORDER BY gate_id DESC LIMIT 1`;
  expect(byLanguage?.gate_id, 'the database does not sort by bytes').toBe(gateIds[0]);

  const text = await exportText(api);
  expect(linesOf(text).flatMap(({ chain }) => chain?.chain_id ?? [])).toEqual(gateIds);
  expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', records: gateIds.length });
});

/**
 * One transaction takes two things one by one, in the order of their bytes, and another one comes in between
 * for both. Throws where the two wait for each other.
 */
async function meet(one: { readonly first: Work; readonly second: Work }, both: Work): Promise<void> {
  const { sql } = api.deps;
  let other: Promise<unknown> | null = null;
  await sql.begin(async (tx) => {
    await one.first(tx);
    other = sql.begin(both);
    other.catch(() => undefined);
    await until(async () => (await waitingForLocks(sql)) === 1, { what: 'the other transaction waits' });
    await one.second(tx);
  });
  await other;
}
type Work = (tx: Transaction) => Promise<unknown>;

it.each([
  { name: 'withdraws', isUsed: false, change: writeWithdrawn },
  { name: 'gives back', isUsed: true, change: unuseApprovals },
])('$name approvals in the order in which a call uses them', async ({ name, isUsed, change }) => {
  const { sql } = api.deps;
  const idOf = (end: string) => `appr_${(name.slice(0, 1) + end).padStart(26, '0')}` as ApprovalId;
  for (const approvalId of [idOf('aa'), idOf('ab')]) await openAnApproval(api, { approvalId });
  const ids = [idOf('ab'), idOf('aa')] as (ApprovalId & AttestationId)[];
  if (isUsed) {
    await sql`UPDATE approvals SET status = 'used', attestation_id = approval_id, due_at_ms = NULL, resolved_at_ms = 0, resolved_by = 'somebody'
      WHERE approval_id = ANY(${ids}::text[])`;
  }
  const lock = (end: string) => (tx: Transaction) =>
    tx`SELECT FROM approvals WHERE approval_id = ${idOf(end)} FOR UPDATE`;
  await meet({ first: lock('aa'), second: lock('ab') }, (tx) => change(tx, ids));
});

it('claims idempotency keys in the order in which they are freed', async () => {
  const keyOf = (start: string) => {
    for (let n = 0; ; n += 1) if (sha256Hex(`key ${n}`).startsWith(start)) return `${n}`;
  };
  const claim =
    (name: string, ...starts: string[]) =>
    (tx: Transaction) =>
      insertSettlements(
        tx,
        starts.map((start) => newSettlement(`${name}_${start}`, keyOf(start))),
        api.deps.clock.now(),
      );
  await meet({ first: claim('one', 'aa'), second: claim('one', 'ab') }, claim('other', 'ab', 'aa'));
});
