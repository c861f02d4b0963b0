/**
 * Room `control-plane/outbox`: what goes to addresses that callers of the API have chosen. Webhooks have one
 * outbox, channels another: a table with a queue for each endpoint (`queues.ts`), a loop that takes from it
 * (`run-outbox.ts`), one attempt (`attempt.ts`), and what attempts say about an endpoint
 * (`endpoint-health.ts`). `guarded-fetch.ts` lets no request leave for a private address.
 */

import type { CounterConfiguration } from 'prom-client';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { Work } from '../storage/due-work.ts';

type Fragment = ReturnType<Database | Transaction>;

/** A table of deliveries, with a queue for each endpoint, described by the room that owns it. */
export interface Queues<D extends Claimed = Claimed> {
  /** Whose commits and whose pulse wake the loop. */
  readonly work: Work;
  readonly deliveries: string;
  /** The columns that name a row, with their values for a delivery, then for those that it speaks for. */
  readonly key: readonly string[];
  keysOf(delivery: D): readonly (readonly string[])[];
  /** What a delivery that has succeeded is. Others are `pending` or `failed`. */
  readonly doneStatus: string;
  /** The columns that count attempts. */
  readonly counters: readonly string[];
  /** One of them in words, their table, and the column with their id in both tables. */
  readonly endpoint: string;
  readonly endpoints: string;
  readonly endpointId: string;
  /** What else must hold for the row `endpoint` to take a delivery now. */
  takesNow(sql: Database | Transaction, nowMs: UnixMillis): Fragment;
  /**
   * What else `noted`, the outcome of some attempts, changes in the row `endpoint`; null: nothing, and one
   * that works as before is not written.
   */
  health(sql: Database): Fragment | null;
}

/** A delivery locked by this replica: until `lockEndsAtMs` no other replica attempts it. */
export interface Claimed {
  readonly endpointId: string;
  /** Generation of the endpoint when it was locked; column `era`. */
  readonly generation: number;
  readonly lockEndsAtMs: UnixMillis;
  /** Since when it was due before it was locked. */
  readonly dueAtMs: UnixMillis;
  /** Attempts since it was last queued, before this one. */
  readonly tries: number;
  /** The owner sends it, as a test or once more: it is no sign of how the endpoint does. */
  readonly isOwners: boolean;
}

/** What the other side made of an attempt. */
export interface Answer {
  readonly hasSucceeded: boolean;
  /** Why not, where its endpoint shows that. */
  readonly fault: { readonly code: string; readonly detail: string } | null;
  /** The address is no more. */
  readonly isGone: boolean;
  /** This delivery will be refused however often it is sent. */
  readonly isFinal: boolean;
  /** How long it wants us to wait with this delivery; null: it does not say. */
  readonly askedForMs: number | null;
  /** And with all others. */
  readonly isBusy: boolean;
}

/** One attempt that has ended, and what follows from it. */
export interface Attempt<D extends Claimed, A extends Answer> {
  readonly delivery: D;
  readonly answer: A;
  readonly startedAtMs: UnixMillis;
  readonly endedAtMs: UnixMillis;
  readonly latencyMs: number;
  /** Null: there is no further one. */
  readonly nextAttemptAtMs: UnixMillis | null;
  /** Its endpoint takes nothing until then. */
  readonly pausedUntilMs: UnixMillis | null;
}

/** What `startOutbox`, which says whose turn it is and what follows from an answer, has to be told. */
export interface Outbox<D extends Claimed, A extends Answer> {
  readonly queues: Queues<D>;
  /** Continues "... are delayed" in the log. */
  readonly name: string;
  readonly bounds: OutboxBounds;
  readonly counters: AttemptCounters<D, A>;
  /** The pause before attempt number `tries + 1`; null: there is no further one. */
  pauseMs(tries: number): number | null;
  /** Locks what is due at each of these endpoints, at most as many as it has slots. */
  lock(claim: Claim): Promise<readonly D[]>;
  /** Sends it once. Rejects for internal errors alone; then it is attempted when its lock expires. */
  send(delivery: D, how: { readonly nowMs: UnixMillis; readonly signal: AbortSignal }): Promise<A>;
  /** Writes down what became of deliveries, with `settle`. Writing the same once more changes nothing. */
  record(attempts: readonly Attempt<D, A>[]): PromiseLike<unknown>;
  /** Removes some old rows. Resolves to whether none are left. */
  trim(nowMs: UnixMillis): Promise<boolean>;
}

export interface Claim {
  readonly slots: ReadonlyMap<string, number>;
  readonly replicaId: string;
  readonly nowMs: UnixMillis;
}

/** Prometheus counters: of attempts by these labels, and of endpoints that were disabled, by reason. */
export interface AttemptCounters<D extends Claimed, A extends Answer> {
  readonly attempts: CounterConfiguration<string>;
  readonly disabled: CounterConfiguration<string>;
  labelsOf(attempt: Attempt<D, A>): Readonly<Record<string, string>>;
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
