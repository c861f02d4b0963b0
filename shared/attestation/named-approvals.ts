import type { Attestation } from '../model/attestation.ts';

/** An approval that records name, and what they say of it. */
export class NamedApproval {
  /** Ascending in the order in which exports list approvals. */
  readonly name: string;
  readonly approvalId: string;
  readonly requestHash: string;
  /** Undefined: no record says what was asked, only what a PERMIT counts from then on. */
  amountMicroUsd: number | null | undefined;
  policyHash: string | null;
  /** Records that name it contradict each other. */
  isContradicted = false;
  /** Whether enough people have approved: a record says so, or a PERMIT used it. */
  isApproved: boolean;
  isDenied: boolean;

  constructor(record: Attestation, id: string) {
    const { chainId, requestHash, policyHash, resolution, decision } = record;
    this.name = `${chainId} ${id}`;
    this.approvalId = id;
    this.requestHash = requestHash;
    this.amountMicroUsd = isOutcome(record) ? undefined : record.amountMicroUsd;
    this.policyHash = policyHash;
    this.isApproved = resolution === 'approved' || decision === 'PERMIT';
    this.isDenied = resolution === 'denied';
  }

  /** Another record that names it. A standing approval is named by records of different requests. */
  add(other: NamedApproval): void {
    const isStanding = this.approvalId.startsWith('sappr_');
    this.isContradicted ||=
      !isStanding &&
      (other.requestHash !== this.requestHash ||
        (this.amountMicroUsd !== undefined &&
          other.amountMicroUsd !== undefined &&
          other.amountMicroUsd !== this.amountMicroUsd) ||
        (this.policyHash !== null && other.policyHash !== null && this.policyHash !== other.policyHash));
    if (this.amountMicroUsd === undefined) this.amountMicroUsd = other.amountMicroUsd;
    this.policyHash ??= other.policyHash;
    this.isApproved ||= other.isApproved;
    this.isDenied ||= other.isDenied;
  }
}

/** What became of a PERMIT: the amount is what it counts from then on, and not what was asked. */
const isOutcome = ({ decision, resolution }: Attestation): boolean =>
  decision === 'PERMIT' && resolution !== null && resolution !== 'voided';

/** The approvals that a record names: what it resolves, and what it used. Mostly none. */
export function approvalsOf(record: Attestation): readonly NamedApproval[] {
  const { refersTo, approvalId } = record;
  const resolved = refersTo?.startsWith('appr_') === true ? refersTo : null;
  if (resolved === null && approvalId === null) return none;
  const ids = new Set([resolved, approvalId].filter((id) => id !== null));
  return [...ids].map((id) => new NamedApproval(record, id));
}

const none: readonly NamedApproval[] = [];
