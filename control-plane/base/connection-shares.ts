import { limits } from '../../shared/model/limits.ts';

/** Of the connections, how many one kind of work has at once, of all owners and of one. */
export interface Share {
  readonly atOnceMax: number;
  readonly perOwnerMax: number;
}

/** Kinds of work that keep a connection for long, or wait on it for each other. */
export interface ConnectionShares {
  readonly decisions: Share;
  readonly exports: Share;
  readonly discoveries: Share;
  readonly snapshots: Share;
  readonly ingests: Share;
}

/**
 * With fewer connections than the default each kind has fewer turns, at least one; what is beyond the shares
 * serves everything else, so more connections than the default do not change them.
 */
export function connectionShares(connections: number): ConnectionShares {
  const part = Math.min(1, connections / limits.databaseConnectionsMax);
  const turns = (count: number): number => Math.max(1, Math.floor(count * part));
  const share = (atOnceMax: number, perOwnerMax: number): Share => ({
    atOnceMax: turns(atOnceMax),
    perOwnerMax: turns(perOwnerMax),
  });
  return {
    decisions: share(limits.decisionsAtOnceMax, limits.decisionsPerAccountMax),
    exports: share(limits.exportsAtOnceMax, limits.exportsPerAccountMax),
    discoveries: share(limits.discoveriesAtOnceMax, limits.discoveriesAtOnceMax),
    snapshots: share(limits.snapshotsAtOnceMax, limits.snapshotsPerAccountMax),
    ingests: share(limits.ingestsAtOnceMax, limits.ingestsPerAccountMax),
  };
}
