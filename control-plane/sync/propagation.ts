import type { SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { ackChannel } from '../../shared/wire/sync.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { syncLimits } from './limits.ts';
import { findServingAccounts, lookAtSidecars } from './sidecar-store.ts';

/** How far a change of the global feed has come among the sidecars that serve one owner's passports. */
export interface Propagation {
  readonly revision: number;
  /** Connected ones. */
  readonly sidecars: number;
  /** Those of them that have the change in force. */
  readonly acknowledged: number;
  /**
   * Sidecars that were connected within `syncLimits.sidecarSilentMs` and are not now: each may go on with
   * what it knew, as long as the trust level of its gates allows. The last seen first, at most
   * `syncLimits.silentSidecarsMax`.
   */
  readonly silent: readonly SidecarId[];
}

/**
 * Counts at once, then waits until every connected sidecar has acknowledged the revision or `waitMs`
 * (0..5000) is over. It speaks of the sidecars of the owner's account, and of those at whose gates passports
 * of the owner were shown; a stranger's are neither counted nor waited for. A sidecar is connected while it
 * was seen within `limits.sidecarConnectedMs`; one that falls silent is no longer waited for.
 */
export async function propagationOf(
  deps: Pick<SigningDeps, 'sql' | 'clock' | 'bus'>,
  owner: Owner,
  globalRevision: number,
  options: { readonly waitMs: number },
): Promise<Propagation> {
  const deadlineMs = deps.clock.monotonic() + Math.min(options.waitMs, limits.propagationWaitMsMax);
  const accountIds = await findServingAccounts(deps.sql, owner);
  const look = async (): Promise<Propagation> => ({
    revision: globalRevision,
    ...(await lookAtSidecars(deps.sql, accountIds, globalRevision)),
  });
  let seen = await look();
  if (isComplete(seen) || options.waitMs <= 0) return seen;

  // Woken by acknowledgements; where the bus loses one, the looks in between find it.
  const wakeup = makeWakeup();
  const unsubscribe = await deps.bus.subscribe(ackChannel, wakeup.wake);
  try {
    let pauseMs: number = syncLimits.ackLookFirstMs;
    for (;;) {
      const leftMs = deadlineMs - deps.clock.monotonic();
      if (isComplete(seen) || leftMs <= 0) return seen;
      await wakeup.sleep(Math.min(pauseMs, leftMs));
      pauseMs = Math.min(pauseMs * 2, syncLimits.ackLookLastMs);
      seen = await look();
    }
  } finally {
    await unsubscribe();
  }
}

const isComplete = (seen: Propagation): boolean => seen.acknowledged >= seen.sidecars;
