import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId, ApprovalId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { hintChannel } from '../events/publish-hints.ts';
import { findApproval, type StoredApproval } from './approval-store.ts';
import { approvalsLimits } from './limits.ts';

type WaitDeps = Pick<AppendingDeps, 'sql' | 'clock' | 'bus' | 'draining'>;

/**
 * Reads an approval, and waits up to a given time while it is pending. Woken by hints; polling finds what the
 * bus lost, and the expiry. Bounded for all accounts and for each: beyond it `overloaded`. Ends early, with
 * the state as it is, where this program stops or the caller has gone.
 */
export class ApprovalWaits {
  #waiting = 0;
  readonly #byAccount = new Map<AccountId, number>();

  /** Throws `approval_not_found`. */
  async read(
    deps: WaitDeps,
    owner: Owner,
    { approvalId, waitMs, hasGone }: WantedApproval,
  ): Promise<StoredApproval> {
    const deadlineMs = deps.clock.monotonic() + waitMs;
    let approval = await readOne(deps, owner, approvalId);
    if (approval.status !== 'pending' || waitMs === 0) return approval;
    this.#enter(owner.accountId);
    try {
      const wakeup = makeWakeup();
      const unsubscribe = await deps.bus.subscribe(hintChannel(owner.accountId), (message) => {
        if (message.includes(approvalId)) wakeup.wake();
      });
      try {
        for (;;) {
          approval = await readOne(deps, owner, approvalId);
          const leftMs = deadlineMs - deps.clock.monotonic();
          const isOver = leftMs <= 0 || deps.draining.isDraining || hasGone();
          if (approval.status !== 'pending' || isOver) return approval;
          await wakeup.sleep(Math.min(leftMs, approvalsLimits.waitLookMs));
        }
      } finally {
        await unsubscribe();
      }
    } finally {
      this.#leave(owner.accountId);
    }
  }

  #enter(accountId: AccountId): void {
    const own = this.#byAccount.get(accountId) ?? 0;
    if (this.#waiting >= approvalsLimits.waitersMax || own >= approvalsLimits.waitersPerAccountMax)
      throw new ApiError('overloaded');
    this.#waiting += 1;
    this.#byAccount.set(accountId, own + 1);
  }

  #leave(accountId: AccountId): void {
    this.#waiting -= 1;
    const own = (this.#byAccount.get(accountId) ?? 1) - 1;
    if (own === 0) this.#byAccount.delete(accountId);
    else this.#byAccount.set(accountId, own);
  }
}

interface WantedApproval {
  readonly approvalId: ApprovalId;
  /** 0: it does not wait. */
  readonly waitMs: number;
  /** Whether the caller's connection was closed. */
  readonly hasGone: () => boolean;
}

async function readOne(deps: WaitDeps, owner: Owner, approvalId: ApprovalId): Promise<StoredApproval> {
  const approval = await findApproval(deps.sql, owner, { approvalId, nowMs: deps.clock.now() });
  if (approval === null) throw new ApiError('approval_not_found');
  return approval;
}
