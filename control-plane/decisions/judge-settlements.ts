import { type DrawnWindow, drawnName, moneyOf } from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { parseCarried } from '../../shared/wire/evidence/carried-members.ts';
import type {
  ArrivedPermit,
  SettlementAnswer,
  SuspendSettlement,
} from '../../shared/wire/sync/settlement.ts';
import {
  judgeAmong,
  type KnownThings,
  type ReportedDecision,
  whyNotReported,
} from '../attestations/judge-records.ts';
import type { Transaction } from '../base/database.ts';
import { heldUnits } from '../book/held-units.ts';
import { decisionsLimits } from './limits.ts';
import { type Parties, refused } from './read-parties.ts';
import {
  bindingNow,
  bindingTo,
  type NewPermit,
  type NewSuspend,
  questionOf,
  type SettlementSender,
} from './settled-request.ts';
import { findVoids } from './withdraw-settlements.ts';

/** A settlement of a sidecar, with the gate and passport it names. */
export interface Admitted<Settlement> {
  readonly settlement: Settlement;
  readonly parties: Parties;
}

type Judged<Kind> = { readonly kind: 'new'; readonly new: Kind } | SettlementAnswer;

/**
 * Returns the PERMITs that this sidecar may have made, and answers the others. A PERMIT with a stored record
 * was settled before. In the order given.
 */
export async function judgePermits(
  tx: Transaction,
  admitted: readonly Admitted<ArrivedPermit>[],
  known: KnownThings,
  sender: SettlementSender,
): Promise<readonly Judged<NewPermit>[]> {
  const verdicts = judgeAmong(
    known,
    sender,
    admitted.map(({ settlement }) => ({
      ...settlement.shipped,
      isApproved: settlement.approval_id !== null,
    })),
  );
  const stored = admitted.filter((_, place) => verdicts[place]?.kind === 'stored');
  const voids = await findVoids(tx, stored.map(idOf));
  return admitted.map((each, place): Judged<NewPermit> => {
    const verdict = must(verdicts[place], 'a record has a verdict');
    if (verdict.kind === 'refused') return refused(verdict.message);
    if (verdict.kind === 'stored') return { kind: voids.has(idOf(each)) ? 'voided' : 'committed' };
    const { settlement, parties } = each;
    const { timestampMs, policyHash } = verdict.record.record;
    // Records that name one approval have one policy, or no export of them verifies.
    const isOfPolicy = policyHash === null || policyHash === parties.gate?.policyHash;
    if (sender.nowMs - timestampMs > decisionsLimits.settlementAgeMsMax)
      return refused('timestamp_ms is too old to be settled');
    return {
      kind: 'new',
      new: {
        ...questionOf(settlement, sender, timestampMs),
        record: verdict.record,
        approvalId: settlement.approval_id,
        binding: isOfPolicy ? bindingNow(settlement, parties.gate) : null,
        holder: sender.holder,
        held: [],
      },
    };
  });
}

const idOf = ({ settlement }: Admitted<ArrivedPermit>) => settlement.shipped.record.id;

/** Returns the SUSPENDs that this sidecar may have made, and answers the others. */
export const judgeSuspends = (
  admitted: readonly Admitted<SuspendSettlement>[],
  known: KnownThings,
  sender: SettlementSender,
): readonly Judged<NewSuspend>[] =>
  admitted.map(({ settlement, parties }): Judged<NewSuspend> => {
    const fault =
      whyNotReported(reportedOf(settlement, sender), sender, known) ?? findLackingHold(settlement, known);
    if (fault !== null) return refused(fault);
    const { holder, sidecarId } = sender;
    return {
      kind: 'new',
      new: {
        ...questionOf(settlement, sender),
        binding: bindingTo(settlement),
        approvalId: settlement.approval_id,
        passport: parties.passport,
        gate: must(parties.gate, 'a suspend names a gate'),
        permissionKey: settlement.permission_key,
        amountMicroUsd: settlement.amount_micro_usd,
        display: settlement.display ?? null,
        // A sidecar knows passports by their tokens alone.
        isAsserted: false,
        shadow: parseCarried({ shadow: settlement.shadow })?.shadow ?? null,
        askedBy: settlement.asked_by === undefined ? null : (settlement.asked_by ?? sender.keyId),
        owner: settlement.owner ?? null,
        tokenUser: settlement.user ?? '',
        constraintsEvaluated: settlement.constraints_evaluated,
        conditions: settlement.conditions ?? null,
        pii: settlement.pii,
        expiresInMs: settlement.expires_in_ms,
        holds: settlement.held.map(heldUnits),
        from: { holder, sidecarId, held: settlement.held },
      },
    };
  });

/**
 * The record as it would be stored. The exact time of the decision is unknown: before the call was sent, at
 * most the lifetime of a call earlier.
 */
const reportedOf = (suspend: SuspendSettlement, { nowMs }: SettlementSender): ReportedDecision => ({
  reported: {
    decision: 'SUSPEND',
    reason: 'approval_required',
    timestampMs: (nowMs - limits.decisionDeadlineMs) as UnixMillis,
    passportId: suspend.passport_id,
    gateId: suspend.gate_id,
    permissionKey: suspend.permission_key,
    amountMicroUsd: suspend.amount_micro_usd,
    constraintsEvaluated: suspend.constraints_evaluated,
  },
  tokenHash: suspend.token_hash,
  // A SUSPEND names a gate, and gates have a mode.
  callerMode: 'live',
  mayBeApproved: false,
});

/**
 * An approval must hold money in every window of the passport's own limits, or the limits could be exceeded.
 */
export function findLackingHold(
  { held, amount_micro_usd: amount, passport_id: passportId }: SuspendSettlement,
  { passports }: KnownThings,
): string | null {
  const own = passports.get(passportId)?.ownWindows;
  if ((amount ?? 0) === 0 || own === undefined) return null;
  const names = new Set(held.map(heldUnits).map(drawnName));
  const isHeld = (each: DrawnWindow): boolean => names.has(drawnName(each));
  if (!own.spend.every(isHeld)) return 'held lacks the money of a limit of passport_id';
  // One that was moved is asked about again: the sidecar has not heard of it.
  const { levels } = own;
  return moneyOf({ spend: [], levels }).every(isHeld)
    ? null
    : 'held lacks the money of a wallet of passport_id';
}
