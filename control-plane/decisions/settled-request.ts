import type { Gate } from '../../shared/model/gate.ts';
import type { AccountId, ApprovalId, GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { LeaseReturn } from '../../shared/wire/lease-call.ts';
import {
  type FirstPermitBody,
  firstPermitBody,
  type SettledRequest,
  type SettlementAnswer,
} from '../../shared/wire/settlement.ts';
import type { ApprovalBinding } from '../approvals/approval-store.ts';
import type { NewApproval } from '../approvals/open-approval.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import type { HolderName } from '../quota/holder-store.ts';
import type { ShortWindow } from '../quota/unused-units.ts';
import type { SettledGate } from './read-parties.ts';
import type { ClaimedPermit, ClaimQuestion, PermitKey } from './settlement.ts';

/** A look-up, of a sidecar or of this program. */
export interface LookUp extends ClaimQuestion {
  readonly approvalId: ApprovalId | null;
  /** Null: no approval can count for the request. */
  readonly binding: ApprovalBinding | null;
  readonly short: readonly ShortWindow[];
}

/** A PERMIT to make true, of a sidecar or of this program. Its settlement has the id of its record. */
export interface NewPermit extends ClaimQuestion {
  readonly record: NewRecord;
  /** The approval to use. */
  readonly approvalId: ApprovalId | null;
  readonly binding: ApprovalBinding | null;
  /** Whose leases it took from; null: this program's own, which keeps none. */
  readonly holder: string | null;
  /** Units that this program takes from the ledger for it. */
  readonly held: readonly HeldUnits[];
}

/** A SUSPEND that opens an approval, of a sidecar or of this program. Its settlement has that id. */
export interface NewSuspend extends ClaimQuestion, Omit<NewApproval, 'gate' | 'nowMs'> {
  readonly gate: Pick<Gate, 'gateId' | 'accountId' | 'mode'>;
  /** `gateVersion`: of the policy that it was decided on. */
  readonly binding: ApprovalBinding;
  /** The sidecar that hands its money over; null: the caller takes it from the ledger. */
  readonly from: (HolderName & { readonly held: readonly LeaseReturn[] }) | null;
}

/** Null: the request has no idempotency key. The account is that of the sidecar. */
const keyOf = (settled: SettledRequest, accountId: AccountId): PermitKey | null =>
  settled.idempotency_key === null
    ? null
    : {
        passportId: settled.passport_id,
        scopeId: settled.gate_id ?? accountId,
        idempotencyKey: settled.idempotency_key,
      };

/** The sidecar that settles, and as whom. */
export type SettlementSender = RecordSender & HolderName;

/** `decidedAtMs`: of a permit, by the clock of its sidecar. Default: now. */
export const questionOf = (
  settled: SettledRequest,
  { accountId, sidecarId, nowMs }: SettlementSender,
  decidedAtMs: UnixMillis = nowMs,
): ClaimQuestion => ({
  key: keyOf(settled, accountId),
  requestHash: settled.request_hash,
  readerId: settled.reader_id,
  source: sidecarId,
  askedAtMs: decidedAtMs < nowMs ? decidedAtMs : nowMs,
});

/** What an approval of the request is bound to (contract §8). */
export const bindingTo = (settled: SettledRequest & { readonly gate_id: GateId }): ApprovalBinding => ({
  passportId: settled.passport_id,
  gateId: settled.gate_id,
  gateVersion: settled.gate_version,
  requestHash: settled.request_hash,
});

/**
 * The same where an approval can count: null without a gate, and where the gate's policy was changed or the
 * gate deleted since the sidecar looked at it, so that no approval is of that policy any more.
 */
export const bindingNow = (settled: SettledRequest, gate: SettledGate | null): ApprovalBinding | null =>
  gate === null || gate.policyVersion !== settled.gate_version || gate.isDeleted
    ? null
    : bindingTo({ ...settled, gate_id: gate.gateId });

/** The answer to a settlement whose key belongs to an earlier PERMIT (contract §5). */
export const answerEarlier = (
  earlier: ClaimedPermit,
  { requestHash }: Pick<ClaimQuestion, 'requestHash'>,
): SettlementAnswer =>
  earlier.requestHash === requestHash
    ? { kind: 'replayed', first: firstPermitBody(earlier) satisfies FirstPermitBody }
    : { kind: 'conflict' };
