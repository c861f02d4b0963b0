import { limits } from '../../shared/model/limits.ts';
import { baseLimits } from './limits.ts';

/** Connections of one kind of work: of all owners, and of one. */
export interface Share {
  readonly atOnceMax: number;
  readonly perOwnerMax: number;
}

/** Kinds of work that hold a connection for long, or wait for each other's locks on it. */
export interface ConnectionShares {
  readonly decisions: Share;
  readonly leaseCalls: Share;
  readonly exports: Share;
  readonly discoveries: Share;
  readonly snapshots: Share;
  readonly ingests: Share;
  /** Reads that the replica of DATABASE_READ_URL cannot answer. */
  readonly passedOver: Share;
}

/**
 * With fewer connections than the default each share shrinks, to at least one. Connections beyond the shares
 * serve everything else, so more than the default do not change the shares.
 */
export function connectionShares(connections: number): ConnectionShares {
  const part = Math.min(1, connections / limits.databaseConnectionsMax);
  const slots = (count: number): number => Math.max(1, Math.floor(count * part));
  const share = (atOnceMax: number, perOwnerMax: number): Share => ({
    atOnceMax: slots(atOnceMax),
    perOwnerMax: slots(perOwnerMax),
  });
  return {
    decisions: share(limits.decisionsAtOnceMax, limits.decisionsPerAccountMax),
    leaseCalls: share(limits.leaseCallsAtOnceMax, limits.leaseCallsPerAccountMax),
    exports: share(limits.exportsAtOnceMax, limits.exportsPerAccountMax),
    discoveries: share(limits.discoveriesAtOnceMax, limits.discoveriesAtOnceMax),
    snapshots: share(limits.snapshotsAtOnceMax, limits.snapshotsPerAccountMax),
    ingests: share(limits.ingestsAtOnceMax, limits.ingestsPerAccountMax),
    passedOver: share(baseLimits.passedOverReadsAtOnceMax, baseLimits.passedOverReadsPerAccountMax),
  };
}
