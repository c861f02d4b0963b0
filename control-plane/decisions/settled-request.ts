import type { Gate } from '../../shared/model/gate.ts';
import type { AccountId, ApprovalId, GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import {
  type FirstPermitBody,
  firstPermitBody,
  type SettledRequest,
  type SettlementAnswer,
} from '../../shared/wire/sync/settlement.ts';
import type { ApprovalBinding } from '../approvals/approval-store.ts';
import type { NewApproval } from '../approvals/open-approval.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { HeldUnits } from '../book/held-units.ts';
import type { HolderName } from '../book/holder-store.ts';
import type { ShortWindow } from '../book/unused-units.ts';
import type { SettledGate } from './read-parties.ts';
import type { ClaimedPermit, ClaimQuestion, PermitKey } from './settlement.ts';

/** A look-up, by a sidecar or the control plane. */
export interface LookUp extends ClaimQuestion {
  readonly approvalId: ApprovalId | null;
  /** Null: no approval can apply to the request. */
  readonly binding: ApprovalBinding | null;
  readonly short: readonly ShortWindow[];
}

/** A PERMIT to settle, made by a sidecar or the control plane. The settlement has the id of the record. */
export interface NewPermit extends ClaimQuestion {
  readonly record: NewRecord;
  /** The approval to use. */
  readonly approvalId: ApprovalId | null;
  readonly binding: ApprovalBinding | null;
  /** The sidecar whose leases it took from; null: the control plane, which keeps none. */
  readonly holder: string | null;
  /** Units that the control plane takes from the ledger for it. */
  readonly held: readonly HeldUnits[];
}

/**
 * A SUSPEND that opens an approval, made by a sidecar or the control plane. The settlement has the approval's
 * id.
 */
export interface NewSuspend extends ClaimQuestion, Omit<NewApproval, 'gate' | 'nowMs'> {
  readonly gate: Pick<Gate, 'gateId' | 'accountId' | 'mode'>;
  /** `gateVersion`: version of the policy it was decided on. */
  readonly binding: ApprovalBinding;
  /** The sidecar that hands over its money; null: the caller takes it from the ledger. */
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

/** The sidecar that settles, its account and its key. */
export type SettlementSender = RecordSender & HolderName & { readonly keyId: string };

/** `decidedAtMs`: time of the permit by the clock of its sidecar. Default: now. */
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

/** The binding of an approval of the request (contract §8). */
export const bindingTo = (settled: SettledRequest & { readonly gate_id: GateId }): ApprovalBinding => ({
  passportId: settled.passport_id,
  gateId: settled.gate_id,
  gateVersion: settled.gate_version,
  requestHash: settled.request_hash,
  tokenUser: settled.user ?? '',
});

/**
 * As above, or null if no approval can apply: there is no gate, or its policy changed or it was deleted since
 * the sidecar decided.
 */
export const bindingNow = (settled: SettledRequest, gate: SettledGate | null): ApprovalBinding | null =>
  gate === null || gate.policyVersion !== settled.gate_version || gate.isDeleted
    ? null
    : bindingTo({ ...settled, gate_id: gate.gateId });

/** The answer to a settlement with the key of an earlier PERMIT (contract §5). */
export const answerEarlier = (
  earlier: ClaimedPermit,
  { requestHash }: Pick<ClaimQuestion, 'requestHash'>,
): SettlementAnswer =>
  earlier.requestHash === requestHash
    ? { kind: 'replayed', first: firstPermitBody(earlier) satisfies FirstPermitBody }
    : { kind: 'conflict' };
