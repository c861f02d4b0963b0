import type { SigningDeps } from '../signing/deps.ts';

/** Whether this process still appends to chains: a broken invariant there stops it until a restart (see append-records.ts). */
interface Appending {
  isStopped: boolean;
}

/** For rooms that put records into chains. */
export interface AppendingDeps extends SigningDeps {
  readonly appending: Appending;
}
