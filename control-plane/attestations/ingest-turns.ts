import { assert } from '../../shared/errors/assert.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { NewRecord } from './append-records.ts';
import { attestationsLimits } from './limits.ts';
import type { LinkedRecords } from './link-records.ts';

/**
 * What a batch puts into chains, worked out before it holds a lock: true only if nothing has come between.
 */
export interface BatchDraft {
  /** Up to which number the records of the epoch have been taken by then. */
  readonly takenSeq: number;
  /** Of the record that follows then. */
  readonly nextSeq: number;
  readonly accepted: readonly NewRecord[];
  /** Of `accepted`, in their order. */
  readonly links: LinkedRecords;
}

/**
 * The batches that this process takes now. Each may be linked and signed while those before it are still
 * being stored, as if these were stored already: a chain is locked for the time of an INSERT, and not for
 * that of a thousand signatures.
 *
 * A turn, once it has begun:
 *
 *     drafting ──> waiting ──all before it hold their locks──> storing ──its own locks──> locked ──> ended
 *
 * Turns follow one another where they share an epoch, in the order in which they begin, and where they share
 * a chain, in the order in which they follow. A turn follows only when those before it in its epoch have, so
 * that of two turns at most one waits for the other. Anything else may come between: another control plane, a
 * settlement, a transaction that fails. Under its locks each batch sees whether its draft is still true, and
 * does without it where it is not. The next `draftPauseBatches` then make no draft, because what is drafted
 * behind a wrong one is wrong, too.
 *
 * Remembers turns that have not ended, which their caller bounds, and nothing else.
 */
export class IngestTurns {
  /** By chain, and by epoch with its sidecar and account, the last that follows there. */
  readonly #newest = new Map<string, IngestTurn>();
  #pause = 0;

  begin(epoch: string): IngestTurn {
    const mayDraft = this.#pause === 0;
    if (!mayDraft) this.#pause -= 1;
    return new IngestTurn(this.#newest, { epoch, mayDraft });
  }

  /** Something has come between. */
  noteStale(): void {
    this.#pause = attestationsLimits.draftPauseBatches;
  }
}

export class IngestTurn {
  /** Null: there is none, so whoever follows has to wait for the end. Never rejects. */
  readonly drafted: Promise<BatchDraft | null>;
  /** It holds its locks, or has ended. */
  readonly locked: Promise<void>;
  readonly ended: Promise<void>;
  readonly #newest: Map<string, IngestTurn>;
  readonly #mayDraft: boolean;
  readonly #names: string[] = [];
  readonly #before = new Set<IngestTurn>();
  #earlier: IngestTurn | null;
  #noteDrafted: (draft: BatchDraft | null) => void = () => undefined;
  #noteLocked: () => void = () => undefined;
  #noteEnded: () => void = () => undefined;

  constructor(newest: Map<string, IngestTurn>, of: { readonly epoch: string; readonly mayDraft: boolean }) {
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

  /** The last turn of the epoch that began before this one. Null: there was none, or this one has ended. */
  get earlier(): IngestTurn | null {
    return this.#earlier;
  }

  /** Joins those that add to these chains. Answers by chain the last turn before it, where there is one. */
  follow(chainIds: readonly ChainId[]): ReadonlyMap<ChainId, IngestTurn> {
    return new Map(
      chainIds.flatMap((chainId): [ChainId, IngestTurn][] => {
        const before = this.#join(chainId);
        return before === null ? [] : [[chainId, before]];
      }),
    );
  }

  /** Makes its draft known to those that follow. A draft that fails is none: storing will fail likewise. */
  async draft(make: () => Promise<BatchDraft | null>): Promise<BatchDraft | null> {
    const draft = this.#mayDraft ? await make().catch(() => null) : null;
    // Nobody may come to ask for them.
    draft?.links.signatures.catch(() => undefined);
    this.#noteDrafted(draft);
    return draft;
  }

  /** Resolves when all that it follows hold their locks. */
  async untilNext(): Promise<void> {
    for (const before of this.#before) await before.locked;
  }

  noteLocked(): void {
    this.#noteLocked();
  }

  /** Whatever has become of it. */
  end(): void {
    this.#noteDrafted(null);
    this.#noteLocked();
    this.#noteEnded();
    for (const name of this.#names) if (this.#newest.get(name) === this) this.#newest.delete(name);
    // Of turns without a gap between them each would keep all before it in memory.
    this.#before.clear();
    this.#earlier = null;
  }

  #join(name: string): IngestTurn | null {
    const before = this.#newest.get(name) ?? null;
    assert(before !== this, 'a turn joins the same once');
    if (before !== null) this.#before.add(before);
    this.#newest.set(name, this);
    this.#names.push(name);
    return before;
  }
}
