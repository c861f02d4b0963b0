import type { SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { ackChannel } from '../../shared/wire/sync/sync.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { syncLimits } from './limits.ts';
import { findServingAccounts, lookAtSidecars } from './sidecar-store.ts';

/** Progress of a global change among the sidecars that serve one owner's passports. */
export interface Propagation {
  readonly revision: number;
  /** Connected sidecars. */
  readonly sidecars: number;
  /** Connected sidecars that have applied the change. */
  readonly acknowledged: number;
  /**
   * Sidecars that were connected within `syncLimits.sidecarSilentMs` but are not now: each may continue with
   * its last state as long as the trust level of its gates allows. Most recently seen first, at most
   * `syncLimits.silentSidecarsMax`.
   */
  readonly silent: readonly SidecarId[];
}

/**
 * Counts once, then waits until every connected sidecar has acknowledged the revision or `waitMs` (0..5000)
 * has passed. Covers sidecars of the owner's account and of gates at which the owner's passports were shown,
 * and no others. A sidecar is connected if it was seen within `limits.sidecarConnectedMs`; a sidecar that
 * falls silent is no longer waited for.
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

  // Woken by acknowledgements; polling finds one that the bus lost.
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
