import { limits } from '../../shared/model/limits.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { ackChannel } from '../../shared/wire/sync.ts';
import type { Deps } from '../deps.ts';
import { countAcknowledged } from './sidecar-store.ts';

/** How far a change of the global feed has come: `acknowledged` of the `sidecars` that are connected have it in force. */
export interface Propagation {
  readonly revision: number;
  readonly sidecars: number;
  readonly acknowledged: number;
}

/**
 * Counts at once, then waits until every connected sidecar has acknowledged the revision or `waitMs` (0..5000) is over. A sidecar
 * is connected while it was heard of within `limits.sidecarConnectedMs`; one that falls silent is no longer waited for.
 */
export async function propagationOf(
  deps: Pick<Deps, 'sql' | 'clock' | 'bus'>,
  globalRevision: number,
  options: { readonly waitMs: number },
): Promise<Propagation> {
  const deadlineMs = deps.clock.monotonic() + Math.min(options.waitMs, limits.propagationWaitMsMax);
  const look = async (): Promise<Propagation> => ({
    revision: globalRevision,
    ...(await countAcknowledged(deps.sql, globalRevision)),
  });
  let seen = await look();
  if (isComplete(seen) || options.waitMs <= 0) return seen;

  // Woken by acknowledgements; where the bus loses one, the looks in between find it.
  const wakeup = makeWakeup();
  const unsubscribe = await deps.bus.subscribe(ackChannel, wakeup.wake);
  try {
    let pauseMs: number = limits.ackLookFirstMs;
    for (;;) {
      const leftMs = deadlineMs - deps.clock.monotonic();
      if (isComplete(seen) || leftMs <= 0) return seen;
      await wakeup.sleep(Math.min(pauseMs, leftMs));
      pauseMs = Math.min(pauseMs * 2, limits.ackLookLastMs);
      seen = await look();
    }
  } finally {
    await unsubscribe();
  }
}

const isComplete = (seen: Propagation): boolean => seen.acknowledged >= seen.sidecars;
