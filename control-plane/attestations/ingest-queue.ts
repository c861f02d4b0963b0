import { assert } from '../../shared/errors/assert.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { NewRecord } from './append-records.ts';
import { attestationsLimits } from './limits.ts';
import type { LinkedRecords } from './link-records.ts';

/** What a batch appends, computed before it holds a lock; valid only if nothing came between. */
export interface BatchDraft {
  /** Last stored number of the epoch by then. */
  readonly takenSeq: number;
  /** Number of the next record. */
  readonly nextSeq: number;
  readonly accepted: readonly NewRecord[];
  /** For `accepted`, in order. */
  readonly links: LinkedRecords;
}

/**
 * The batches that this process is storing. A batch may be linked and signed while earlier ones are still
 * being stored, as if they were stored: this locks a chain for one INSERT instead of a thousand signatures.
 *
 * States of a place in the queue:
 *
 *     drafting ──> waiting ──all before it hold their locks──> storing ──its own locks──> locked ──> ended
 *
 * Batches of one epoch follow each other in the order of their start, batches of one chain in the order in
 * which they join it. A batch joins its chains only after the earlier ones of its epoch have, so two cannot
 * wait for each other. Other writers may come between: another control plane, a settlement, a failed
 * transaction. Under its locks each batch checks its draft and discards it if stale. The next
 * `draftPauseBatches` then make no draft, because a draft that builds on a stale one is stale too.
 *
 * Remembers only places that have not ended; the caller bounds their number.
 */
export class IngestQueue {
  /** The last place per chain, and per epoch (with its sidecar and account). */
  readonly #newest = new Map<string, IngestPlace>();
  #pause = 0;

  begin(epoch: string): IngestPlace {
    const mayDraft = this.#pause === 0;
    if (!mayDraft) this.#pause -= 1;
    return new IngestPlace(this.#newest, { epoch, mayDraft });
  }

  /** Another writer came between. */
  noteStale(): void {
    this.#pause = attestationsLimits.draftPauseBatches;
  }
}

/** The place of one batch. */
export class IngestPlace {
  /** Null: no draft, so a follower has to wait for the end. Never rejects. */
  readonly drafted: Promise<BatchDraft | null>;
  /** Resolves when the batch holds its locks or has ended. */
  readonly locked: Promise<void>;
  readonly ended: Promise<void>;
  readonly #newest: Map<string, IngestPlace>;
  readonly #mayDraft: boolean;
  readonly #names: string[] = [];
  readonly #before = new Set<IngestPlace>();
  #earlier: IngestPlace | null;
  #noteDrafted: (draft: BatchDraft | null) => void = () => undefined;
  #noteLocked: () => void = () => undefined;
  #noteEnded: () => void = () => undefined;

  constructor(newest: Map<string, IngestPlace>, of: { readonly epoch: string; readonly mayDraft: boolean }) {
    this.#newest = newest;
    this.#mayDraft = of.mayDraft;
    this.drafted = new Promise((resolve) => {
      this.#noteDrafted = resolve;
    });
    this.locked = new Promise((resolve) => {
      this.#noteLocked = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.#noteEnded = resolve;
    });
    this.#earlier = this.#join(of.epoch);
  }

  /** The place of the epoch's previous batch. Null: there was none, or this one has ended. */
  get earlier(): IngestPlace | null {
    return this.#earlier;
  }

  /** Joins the queue of these chains. Returns the previous place per chain, if any. */
  follow(chainIds: readonly ChainId[]): ReadonlyMap<ChainId, IngestPlace> {
    return new Map(
      chainIds.flatMap((chainId): [ChainId, IngestPlace][] => {
        const before = this.#join(chainId);
        return before === null ? [] : [[chainId, before]];
      }),
    );
  }

  /** Publishes the draft to followers. A failed draft counts as none: storing will fail likewise. */
  async draft(make: () => Promise<BatchDraft | null>): Promise<BatchDraft | null> {
    const draft = this.#mayDraft ? await make().catch(() => null) : null;
    // There may be no follower to handle a rejection.
    draft?.links.signatures.catch(() => undefined);
    this.#noteDrafted(draft);
    return draft;
  }

  /** Resolves when all earlier batches hold their locks. */
  async untilNext(): Promise<void> {
    for (const before of this.#before) await before.locked;
  }

  noteLocked(): void {
    this.#noteLocked();
  }

  /** Leaves the queue, whatever the outcome. */
  end(): void {
    this.#noteDrafted(null);
    this.#noteLocked();
    this.#noteEnded();
    for (const name of this.#names) if (this.#newest.get(name) === this) this.#newest.delete(name);
    // Otherwise, in a run of batches without a gap, each would keep all earlier ones in memory.
    this.#before.clear();
    this.#earlier = null;
  }

  #join(name: string): IngestPlace | null {
    const before = this.#newest.get(name) ?? null;
    assert(before !== this, 'a place joins the same once');
    if (before !== null) this.#before.add(before);
    this.#newest.set(name, this);
    this.#names.push(name);
    return before;
  }
}
