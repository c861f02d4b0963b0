import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import type { Work } from '../storage/due-work.ts';

/** The queue of one endpoint: its earliest delivery. */
export interface Queue {
  readonly endpointId: string;
  /** Something is due, and the endpoint takes it now. */
  readonly isDue: boolean;
  /** The endpoint is there no more. */
  readonly isDeleted: boolean;
}

/** A delivery locked by this replica: until `lockEndsAtMs` no other replica attempts it. */
export interface Claimed {
  readonly lockEndsAtMs: UnixMillis;
}

/** What the loop needs to know of an attempt that has ended. */
export interface Ended {
  readonly hasSucceeded: boolean;
  readonly latencyMs: number;
}

/**
 * A table of deliveries, with a queue for each endpoint, and the way to send one. `startOutbox` does the
 * rest: whose turn it is, how many at once, what happens at a stop. Webhooks have one, channels another.
 */
export interface Outbox<D extends Claimed, A extends Ended> {
  /** Whose commits and whose pulse wake the loop. */
  readonly sql: Database;
  readonly work: Work;
  /** Continues "... are delayed" in the log. */
  readonly name: string;
  readonly bounds: OutboxBounds;
  endpointOf(delivery: D): string;
  /** The next queues after that endpoint, in the order of their ids: at most `webhookQueuesPerLookMax`. */
  readQueues(after: string): Promise<readonly Queue[]>;
  /** Removes some deliveries of deleted endpoints. */
  dropQueues(endpointIds: readonly string[]): Promise<void>;
  /** Locks what is due at each of these endpoints, at most as many as it has slots. */
  lock(slots: ReadonlyMap<string, number>): Promise<readonly D[]>;
  /** Releases what was locked and not attempted to its end: it is due as it was. */
  release(deliveries: readonly D[]): Promise<void>;
  /**
   * Sends it once. Rejects for internal errors alone; then the delivery is attempted when its lock expires.
   */
  attempt(delivery: D, signal: AbortSignal): Promise<A>;
  /** Writing the same once more changes nothing. */
  record(attempts: readonly A[]): Promise<void>;
  /** Removes some old rows. Resolves to whether none are left. */
  trim(): Promise<boolean>;
}

export interface OutboxBounds {
  /** Attempts at once to one endpoint from one replica; halved for each that has failed in a row. */
  readonly concurrencyMax: number;
  /** Deliveries of one endpoint that are claimed beyond its attempts, while it answers fast. */
  readonly aheadMax: number;
  readonly lockMs: number;
  /** An idle replica looks for due deliveries this often. */
  readonly pollMs: number;
}
