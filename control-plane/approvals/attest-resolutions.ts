import type { Resolution } from '../../shared/model/attestation.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { appendRecords, type NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import type { StoredApproval } from './approval-store.ts';

interface ResolvedHow {
  /** `voided`: the answer before was undone. */
  readonly resolution: Resolution;
  readonly nowMs: UnixMillis;
}

/**
 * A SUSPEND is attested when it is resolved (contract §8), in the chain of its passport. An approval that is
 * approved and then expires unused has two records.
 */
export async function attestResolutions(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'sql' | 'random' | 'signingKeys' | 'appending'>,
  approvals: readonly StoredApproval[],
  how: ResolvedHow,
): Promise<void> {
  await appendRecords(
    tx,
    deps,
    approvals.map((approval) => resolutionRecord(deps, approval, how)),
  );
}

export const resolutionRecord = (
  { random }: Pick<AppendingDeps, 'random'>,
  approval: StoredApproval,
  { resolution, nowMs }: ResolvedHow,
): NewRecord => ({
  record: {
    id: random.newId('att', nowMs),
    chainId: approval.passportId,
    passportId: approval.passportId,
    gateId: approval.gateId,
    decision: 'SUSPEND',
    reason: 'approval_required',
    requestHash: approval.requestHash,
    permissionKey: approval.permissionKey,
    amountMicroUsd: approval.amountMicroUsd,
    constraintsEvaluated: approval.constraintsEvaluated,
    pii: approval.pii,
    test: false,
    resolution,
    refersTo: approval.approvalId,
    source: 'control-plane',
    sourceAccount: approval.gateAccountId,
    timestampMs: nowMs,
  },
  passportOwner: { accountId: approval.passportAccountId, mode: approval.passportMode },
  gateOwner: { accountId: approval.gateAccountId, mode: approval.gateMode },
});
