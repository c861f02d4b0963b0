import type { AttestationRecord, RecordForm } from '../../shared/model/attestation.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { Posting } from '../book/post.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { NewAttestation } from './insert-attestations.ts';

/** A record that this transaction appends. */
export interface AppendedRecord extends NewAttestation {
  /**
   * Whether it counts for its passport and gate (contract §9): another account's record without a gate does
   * not.
   */
  readonly counts: boolean;
  /** Sidecar leases that the decision took from; empty for a decision of the control plane. */
  readonly took: readonly number[];
  /** Its passport is in a wallet, also where a record in form 1 does not say so. */
  readonly isInWallet: boolean;
  /** See NewRecord. */
  readonly postings: readonly Posting[];
}

/**
 * Further writes of the transaction that stored these records, in this order. If it throws, the records are
 * rolled back. It may lock hot rows, in an order common to all transactions, until the commit.
 *
 * All projections start together, so their first statements share a round trip and run in the order of the
 * projections. Later statements come after the first statements of all.
 */
export type Projection = (
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  appended: readonly AppendedRecord[],
) => Promise<void>;

/**
 * A projection that has to read something first: its reads are sent along with the chain locks, so nothing
 * waits for them later.
 */
export interface PreparedProjection {
  readonly prepare: (tx: Transaction, records: readonly AttestationRecord[]) => Promise<Projection>;
}

interface Appending {
  /** See recordFormOf. */
  readonly recordForm: () => RecordForm;
  /**
   * Whether this process stopped appending: a broken invariant of a chain stops it until a restart (see
   * append-records.ts).
   */
  isStopped: boolean;
  /** Injected by the root, because their rooms depend on this one. */
  readonly projections: readonly (Projection | PreparedProjection)[];
}

/** For rooms that put records into chains. */
export interface AppendingDeps extends SigningDeps {
  readonly appending: Appending;
}
