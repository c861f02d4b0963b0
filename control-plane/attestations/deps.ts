import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { NewAttestation } from './insert-attestations.ts';

/** A record that goes into its chain in this transaction. */
export interface AppendedRecord extends NewAttestation {
  /**
   * Whether it counts for its passport and gate (contract §9): what somebody else says of a passport, and of
   * no gate, does not.
   */
  readonly counts: boolean;
  /** Leases of a sidecar that the decision took from; empty for a decision of the control plane. */
  readonly took: readonly number[];
}

/**
 * What else becomes true with records, in the same transaction: they have just been stored in this order.
 * Where it throws, none of them is. It may lock rows that many transactions share, in one order for all, and
 * keeps them until the commit.
 *
 * All of them are begun in one go, so that what they send first travels together, and is done in the order of
 * the projections. What one of them sends after that waits for answers, and comes after the first statements
 * of all.
 */
export type Projection = (
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  appended: readonly AppendedRecord[],
) => Promise<void>;

/**
 * A projection that has to know something of the records first: what it reads travels with the locks of their
 * chains, so that nothing waits for it later.
 */
export interface PreparedProjection {
  readonly prepare: (tx: Transaction, records: readonly AttestationRecord[]) => Promise<Projection>;
}

interface Appending {
  /**
   * Whether this process appends to no chain any more: a broken invariant there stops it until a restart (see
   * append-records.ts).
   */
  isStopped: boolean;
  /**
   * Handed in by the root, because their rooms know more of records than this one knows of them.
   */
  readonly projections: readonly (Projection | PreparedProjection)[];
}

/** For rooms that put records into chains. */
export interface AppendingDeps extends SigningDeps {
  readonly appending: Appending;
}
