import { must } from '../../shared/errors/assert.ts';
import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/settlement.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import { appendRecords } from '../attestations/append-records.ts';
import { judgeRecords, type RecordSender } from '../attestations/judge-records.ts';
import type { Deps, Transaction } from '../deps.ts';
import { claimKey } from '../enforcement/permit-claims.ts';
import { holdLeases } from '../leases/lease-posts.ts';
import { NothingSettled, refusal } from './nothing-settled.ts';
import { readParties } from './read-parties.ts';
import { answerEarlier, bindingNow, keyOf } from './settled-request.ts';

type PermitCall = Extract<ArrivedSettlement, { kind: 'permit' }>;

/**
 * Makes a PERMIT of a sidecar true: its key is claimed, its approval used and its record in its chain, all with the commit or none of it. Of two
 * at once with one key, or with one approval, one is committed; the other waits for it, and is answered with what it finds then.
 *
 * The record is the memory of the call: where it is stored, the call was committed, and is answered so again, whatever has happened since.
 */
export async function settlePermit(
  tx: Transaction,
  deps: Pick<Deps, 'random' | 'signingKeys' | 'appending'>,
  call: PermitCall,
  sender: RecordSender,
): Promise<SettlementAnswer> {
  const [judged] = await judgeRecords(tx, sender, [call.shipped]);
  const verdict = must(judged, 'a record has a verdict');
  if (verdict.kind === 'stored') return committed;
  if (verdict.kind === 'refused') throw refusal(verdict.message);
  const { gate } = await readParties(tx, sender.accountId, call);

  const { record } = verdict.record;
  const key = keyOf(call, sender.accountId);
  const earlier = key === null ? null : await claimKey(tx, key, record, sender.nowMs);
  if (earlier !== null) return answerEarlier(earlier, call);

  if (call.approval_id !== null) {
    const binding = bindingNow(call, gate);
    if (binding === null) throw new NothingSettled(mismatch);
    const used = await consumeApproval(tx, call.approval_id, binding, record.id, sender.nowMs);
    if (used !== 'consumed') {
      throw new NothingSettled({
        kind: 'approval',
        standing: used.standing,
        expires_at_ms: used.expiresAtMs,
      });
    }
  }

  if (!(await holdLeases(tx, call.shipped.took ?? [])))
    throw refusal('what the record took is not leased to this sidecar');
  await appendRecords(tx, deps, [verdict.record]);
  return committed;
}

const committed: SettlementAnswer = { kind: 'committed' };
const mismatch: SettlementAnswer = { kind: 'approval', standing: 'mismatch', expires_at_ms: null };
