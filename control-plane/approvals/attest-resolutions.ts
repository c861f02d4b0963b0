import {
  type CarriedMembers,
  emptyExtras,
  noCarried,
  type RecordExtras,
  type Resolution,
} from '../../shared/model/attestation.ts';
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
  await appendRecords(tx, deps, await resolutionRecords(tx, deps, approvals, how));
}

/** In the order of the approvals. */
export async function resolutionRecords(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random'>,
  approvals: readonly StoredApproval[],
  how: ResolvedHow,
): Promise<readonly NewRecord[]> {
  const policies = await boundPolicies(tx, approvals);
  return approvals.map((approval) => {
    const policy = policies.get(policyName(approval)) ?? unknownPolicy;
    return resolutionRecord(deps, { ...approval, ...policy }, how);
  });
}

type BoundPolicy = Pick<RecordExtras, 'policyHash' | 'trustLevel'>;

const unknownPolicy: BoundPolicy = { policyHash: null, trustLevel: null };

const policyName = ({ gateId, gateVersion }: Pick<StoredApproval, 'gateId' | 'gateVersion'>): string =>
  `${gateId} ${gateVersion}`;

/** The policies that approvals are bound to, by `policyName`. */
async function boundPolicies(
  tx: Transaction,
  approvals: readonly StoredApproval[],
): Promise<ReadonlyMap<string, BoundPolicy>> {
  const rows = await tx<(BoundPolicy & Pick<StoredApproval, 'gateId' | 'gateVersion'>)[]>`
    SELECT gate_id AS "gateId", policy_version AS "gateVersion", policy_hash AS "policyHash",
      trust_level AS "trustLevel"
    FROM gate_policies JOIN policies USING (policy_hash)
    WHERE (gate_id, policy_version) IN (
      SELECT * FROM unnest(${approvals.map(({ gateId }) => gateId)}::text[],
        ${approvals.map(({ gateVersion }) => gateVersion)}::bigint[]))`;
  return new Map(rows.map((row) => [policyName(row), row]));
}

const carriedOf = ({ conditions, shadow }: StoredApproval): CarriedMembers | null =>
  conditions === null && shadow === null ? null : { ...noCarried, conditions, shadow };

const resolutionRecord = (
  { random }: Pick<AppendingDeps, 'random'>,
  approval: StoredApproval & BoundPolicy,
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
    ...emptyExtras,
    policyHash: approval.policyHash,
    trustLevel: approval.trustLevel,
    approvalId: approval.approvalId,
    asserted: approval.isAsserted,
    carried: carriedOf(approval),
  },
  passportOwner: { accountId: approval.passportAccountId, mode: approval.passportMode },
  gateOwner: { accountId: approval.gateAccountId, mode: approval.gateMode },
});
