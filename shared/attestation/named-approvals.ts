import type { Attestation } from '../model/attestation.ts';

/** An approval that a record names. */
export interface NamedApproval {
  /** Ascending in the order in which exports list approvals. */
  readonly name: string;
  readonly approvalId: string;
}

/** The approvals that a record names: what it resolves, and what it used. Mostly none. */
export function approvalsOf({ chainId, refersTo, approvalId }: Attestation): readonly NamedApproval[] {
  const resolved = refersTo?.startsWith('appr_') === true ? refersTo : null;
  if (resolved === null && approvalId === null) return none;
  const ids = new Set([resolved, approvalId].filter((id) => id !== null));
  return [...ids].map((id) => ({ name: `${chainId} ${id}`, approvalId: id }));
}

const none: readonly NamedApproval[] = [];
