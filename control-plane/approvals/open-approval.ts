/**
 * Room `control-plane/approvals`: requests that wait for a person. Opened here, then `resolve-approval.ts`,
 * `consume-approval.ts` and `expire-approvals.ts`.
 */

import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import type { ShadowVerdict } from '../../shared/decision/shadow.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { ApprovalDisplay } from '../../shared/model/approval.ts';
import type { PiiFinding } from '../../shared/model/attestation.ts';
import type { CheckName } from '../../shared/model/decision.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowKey } from '../../shared/quota/window.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../book/held-units.ts';
import { together } from '../storage/together.ts';
import {
  countPending,
  deleteApproval,
  findBoundApproval,
  findPendingApproval,
  findUser,
  insertApproval,
  type StoredApproval,
  writeOverdue,
} from './approval-store.ts';
import { emitApprovalEvents } from './emit-approval-events.ts';
import { findOwners, findRequesters } from './find-requesters.ts';
import { approvalsLimits } from './limits.ts';

/** A suspended request with its money. */
export interface NewApproval {
  /** Made by the deciding program, so that it can retry after no answer. */
  readonly approvalId: ApprovalId;
  readonly passport: Pick<VerifiedPassport, 'passportId' | 'agentId' | 'accountId' | 'mode'>;
  readonly gate: Pick<Gate, 'gateId' | 'policyVersion' | 'accountId' | 'mode'> & {
    /** Whether its approvals are answered by people other than the one who asked. */
    readonly namesAsker: boolean;
    /** See HeldPolicy. */
    readonly asksForOwner: boolean;
    readonly isIndependent: boolean;
  };
  readonly requestHash: string;
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  readonly display: ApprovalDisplay | null;
  /** The key or person that asked. Null: a sidecar of the version before does not say. */
  readonly askedBy: string | null;
  /** Whom the token names; null: nobody, or as the passport's row has it. */
  readonly owner: string | null;
  /** For whom the token says that its agent acts (`ApprovalBinding`). */
  readonly tokenUser: string;
  /** It names its passport without the token (contract §16). */
  readonly isAsserted: boolean;
  /** See StoredApproval. */
  readonly shadow: ShadowVerdict | null;
  readonly constraintsEvaluated: readonly CheckName[];
  /** See Approval. */
  readonly conditions: readonly string[] | null;
  readonly pii: readonly PiiFinding[];
  /**
   * How long it stays pending from now, and usable from its approval. At most `limits.approvalExpiryMsMax`.
   */
  readonly expiresInMs: number;
  /**
   * Units of the ledger that it takes over if it is opened; each window once, at most
   * `limits.approvalHoldsMax`.
   */
  readonly holds: readonly HeldUnits[];
  readonly nowMs: UnixMillis;
}

export interface OpenedApproval {
  /** The id of the pending approval: the offered one, or an earlier one for the same request. */
  readonly approvalId: ApprovalId;
  readonly expiresAtMs: UnixMillis;
  /**
   * It is pending under the offered id, with the holds of the call that opened it. False: the offered holds
   * stay with the caller.
   */
  readonly isNew: boolean;
  /** An earlier call opened it under this id and handed over its holds. */
  readonly isRepeat: boolean;
}

/**
 * Opens an approval, or finds the pending one of the same request: of concurrent calls on all replicas,
 * exactly one opens it. If the result is `isNew` and not `isRepeat`, the caller takes the holds **in the same
 * transaction**, from the ledger or from the lease that they were charged to. From the commit on they belong
 * to the approval, which frees them at its end.
 *
 * Null: the passport already has the maximum of pending approvals at the gate
 * (`approvalsLimits.approvalsPendingMax`, a few more under concurrency); nothing was changed. Counting comes
 * after opening, so that an existing approval is found.
 *
 * Locks no quota window, so it comes before they are locked (the order is in storage/locks.ts). Throws
 * `invalid_request` if the id belongs to another approval.
 */
export async function openApproval(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'baseUrl'>,
  wanted: NewApproval,
): Promise<OpenedApproval | null> {
  const approval = { ...toApproval(wanted), requesters: await requestersOf(tx, wanted) };
  const { approvalId } = approval;
  // A round fails only if another transaction has just ended, so two are hardly ever needed.
  for (let round = 0; round < roundsMax; round++) {
    const [isInserted, pending, user] = await together([
      () => insertApproval(tx, approval),
      () => countPending(tx, approval, wanted.nowMs),
      () => findUser(tx, wanted),
    ]);
    if (isInserted) {
      if (pending > approvalsLimits.approvalsPendingMax) {
        await deleteApproval(tx, approvalId);
        return null;
      }
      await emitApprovalEvents(tx, deps, 'approval.requested', [{ ...approval, user }], wanted.nowMs);
      return { approvalId, expiresAtMs: approval.expiresAtMs, isNew: true, isRepeat: false };
    }
    const own = await findBoundApproval(tx, approvalId, approval);
    if (own !== null) return { approvalId, expiresAtMs: own.expiresAtMs, isNew: true, isRepeat: true };
    const earlier = await findPendingApproval(tx, approval);
    if (earlier !== null && earlier.expiresAtMs > wanted.nowMs) {
      const { expiresAtMs } = earlier;
      return { approvalId: earlier.approvalId, expiresAtMs, isNew: false, isRepeat: false };
    }
    if (earlier !== null) await writeOverdue(tx, earlier.approvalId, wanted.nowMs);
    else if (await isTaken(tx, approvalId)) {
      throw new ApiError('invalid_request', {
        param: 'approval_id',
        message: 'approval_id belongs to another approval.',
      });
    }
  }
  throw new ApiError('overloaded');
}

const roundsMax = 5;

/** Null: not known, or anybody may answer. */
async function requestersOf(tx: Transaction, { gate, passport, askedBy, owner, nowMs }: NewApproval) {
  const { accountId, namesAsker, asksForOwner } = gate;
  const independentAtMs = gate.isIndependent ? nowMs : null;
  const { passportId } = passport;
  if (namesAsker && askedBy === null) return null;
  const behind =
    namesAsker && askedBy !== null
      ? await findRequesters(tx, { accountId, passports: passportId, askedBy, independentAtMs })
      : [];
  const owners = asksForOwner ? await findOwners(tx, { accountId, passportId, owner }) : [];
  return namesAsker || asksForOwner ? [...new Set([...behind, ...owners])].sort() : null;
}

async function isTaken(tx: Transaction, approvalId: ApprovalId): Promise<boolean> {
  const rows = await tx`SELECT FROM approvals WHERE approval_id = ${approvalId}`;
  return rows.length > 0;
}

function toApproval(wanted: NewApproval): Omit<StoredApproval, 'requesters' | 'user'> {
  const { passport, gate, holds, expiresInMs, nowMs } = wanted;
  assert(expiresInMs > 0 && expiresInMs <= limits.approvalExpiryMsMax, 'an approval waits a bounded time');
  assert(holds.length <= limits.approvalHoldsMax, 'an approval holds units of a bounded number of windows');
  const windows = new Set(
    holds.map(({ counter, window, startsAtMs }) => windowKey(counter, { name: window, startsAtMs })),
  );
  assert(windows.size === holds.length, 'an approval holds units of each window once');
  for (const { units } of holds)
    assert(Number.isSafeInteger(units) && units >= 0, 'a hold is a whole number of units');
  return {
    approvalId: wanted.approvalId,
    status: 'pending',
    passportId: passport.passportId,
    agentId: passport.agentId,
    gateId: gate.gateId,
    gateVersion: gate.policyVersion,
    requestHash: wanted.requestHash,
    permissionKey: wanted.permissionKey,
    amountMicroUsd: wanted.amountMicroUsd,
    display: wanted.display,
    createdAtMs: nowMs,
    expiresAtMs: (nowMs + expiresInMs) as UnixMillis,
    resolvedAtMs: null,
    resolvedBy: null,
    note: null,
    answers: [],
    constraintsEvaluated: wanted.constraintsEvaluated,
    conditions: wanted.conditions,
    pii: wanted.pii,
    passportAccountId: passport.accountId,
    passportMode: passport.mode,
    gateAccountId: gate.accountId,
    gateMode: gate.mode,
    isAsserted: wanted.isAsserted,
    shadow: wanted.shadow,
    tokenUser: wanted.tokenUser,
    expiresInMs,
    holds,
  };
}
