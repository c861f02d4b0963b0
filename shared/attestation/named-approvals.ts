import type { Attestation } from '../model/attestation.ts';

/** An approval that records name, and what they say of it. */
export class NamedApproval {
  /** Ascending in the order in which exports list approvals. */
  readonly name: string;
  readonly approvalId: string;
  readonly requestHash: string;
  readonly amountMicroUsd: number | null;
  policyHash: string | null;
  /** Records that name it contradict each other. */
  isContradicted = false;
  isApproved = false;
  isDenied = false;

  constructor({ chainId, requestHash, amountMicroUsd, policyHash, resolution }: Attestation, id: string) {
    this.name = `${chainId} ${id}`;
    this.approvalId = id;
    this.requestHash = requestHash;
    this.amountMicroUsd = amountMicroUsd;
    this.policyHash = policyHash;
    this.isApproved = resolution === 'approved';
    this.isDenied = resolution === 'denied';
  }

  /** Another record that names it. A standing approval is named by records of different requests. */
  add(other: NamedApproval): void {
    const isStanding = this.approvalId.startsWith('sappr_');
    this.isContradicted ||=
      !isStanding &&
      (other.requestHash !== this.requestHash ||
        other.amountMicroUsd !== this.amountMicroUsd ||
        (this.policyHash !== null && other.policyHash !== null && this.policyHash !== other.policyHash));
    this.policyHash ??= other.policyHash;
    this.isApproved ||= other.isApproved;
    this.isDenied ||= other.isDenied;
  }
}

/** The approvals that a record names: what it resolves, and what it used. Mostly none. */
export function approvalsOf(record: Attestation): readonly NamedApproval[] {
  const { refersTo, approvalId } = record;
  const resolved = refersTo?.startsWith('appr_') === true ? refersTo : null;
  if (resolved === null && approvalId === null) return none;
  const ids = new Set([resolved, approvalId].filter((id) => id !== null));
  return [...ids].map((id) => new NamedApproval(record, id));
}

const none: readonly NamedApproval[] = [];
