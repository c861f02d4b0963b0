/**
 * Room `control-plane/log`: the transparency log (contract §9). What has changed (`changed-heads.ts`) becomes
 * entries of a tree in the database (`append-heads.ts`, `log-store.ts`), whose checkpoints witnesses cosign
 * (`checkpoint-round.ts`, `ask-witness.ts`); `routes.ts` serves it, `prove-head.ts` proves what is in it.
 */

import { Histogram } from 'prom-client';
import { areSame } from '../../shared/log/merkle.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { historyOf } from '../history/history.ts';
import { noteLostTrees } from '../history/lost-trees.ts';
import { appendHeads, LogMoved } from './append-heads.ts';
import { changedKeys, headSources } from './changed-heads.ts';
import { publishTree, type Round, Witnesses } from './checkpoint-round.ts';
import { type LogDeps, originOf } from './deps.ts';
import { logLimits } from './limits.ts';
import { addLogMetrics } from './log-metrics.ts';
import { type LogState, logStateOf } from './log-state.ts';
import { beginFirstLog, claimLog, type LogTree, leaveLog, readPublished } from './log-store.ts';

/** What else is true once a witness has shown that history went back, in the same transaction. */
export type OnLostTrees = Parameters<typeof noteLostTrees>[2];

/**
 * Writes the log while this replica is the one that does, and knows it otherwise.
 *
 *     waiting ──no other writer──> confirming ──a quorum holds no other tree──> writing
 *                                     └──a witness shows another──> stopped, until a recovery
 *
 * A replica appends only to the very tree that it has confirmed, or appended to itself: whatever the database
 * has become since then is confirmed anew. Never throws.
 */
export function keepLog(deps: LogDeps, onLostTrees: OnLostTrees): Repetition {
  const { sql, logger, replicaId } = deps;
  const writer = new LogWriter(deps, onLostTrees);
  addLogMetrics(deps, logStateOf(sql));
  let isFailing = false;
  const repetition = repeat(async ({ isStopped }) => {
    try {
      const pauseMs = await writer.round(() => isStopped);
      if (isFailing) logger.info({}, 'the transparency log can be written again');
      isFailing = false;
      return pauseMs;
    } catch (error) {
      writer.forget();
      if (!isFailing)
        logger.warn({ err: error }, 'the transparency log cannot be written, which is tried again');
      isFailing = true;
      return logLimits.retryMs;
    }
  });
  return {
    ...repetition,
    stop: async () => {
      await repetition.stop();
      await leaveLog(sql, replicaId).catch(() => undefined);
    },
  };
}

/** One replica's part; `keepLog` repeats its rounds. */
export class LogWriter {
  readonly #deps: LogDeps;
  readonly #onLostTrees: OnLostTrees;
  readonly #witnesses: Witnesses;
  readonly #state: LogState;
  readonly #lag: Histogram;
  /** The tree that no witness contradicts; null: not known. */
  #confirmed: LogTree | null = null;
  #publishedAt = 0;
  #told = '';

  constructor(deps: LogDeps, onLostTrees: OnLostTrees) {
    this.#deps = deps;
    this.#onLostTrees = onLostTrees;
    this.#witnesses = new Witnesses(deps);
    this.#state = logStateOf(deps.sql);
    this.#lag = new Histogram({
      name: 'agent_trust_log_pass_seconds',
      help: 'How long the writer of the log took for a pass over all chains, with what it appended and published.',
      buckets: [0.01, 0.1, 0.5, 1, 2, 5, 10, 30],
      registers: [deps.metrics],
    });
  }

  /** What was done is not known: the database is read again. */
  forget(): void {
    this.#confirmed = null;
  }

  /** One pass, if this replica writes. Returns the pause after it. */
  async round(isStopped: () => boolean): Promise<number> {
    const { sql, replicaId, clock } = this.#deps;
    if (this.#confirmed === null) await beginFirstLog(sql, originOf(this.#deps, 1));
    const tree = await claimLog(sql, { replicaId, forMs: logLimits.writerMs });
    if (tree === null || historyOf(sql).isRegressed) {
      this.forget();
      this.#state.stop = historyOf(sql).isRegressed ? 'regressed' : null;
      if (tree !== null && historyOf(sql).isRegressed) await this.#lookForLosses(tree);
      await this.#state.refresh();
      return logLimits.lookMs;
    }
    const startedMs = clock.monotonic();
    if ((await this.#isContradicted(tree, this.#witnesses.shown(tree))) || !(await this.#confirm(tree))) {
      await this.#state.refresh();
      return logLimits.retryMs;
    }
    if (await this.#pass(tree, isStopped)) await this.#state.refresh();
    const tookMs = clock.monotonic() - startedMs;
    this.#lag.observe(tookMs / secondMs);
    return Math.min(
      Math.max(logLimits.passPauseMs, tookMs * logLimits.passPauseFactor),
      logLimits.passPauseMsMax,
    );
  }

  /** Whether this tree may grow. */
  async #confirm(tree: LogTree): Promise<boolean> {
    const known = this.#confirmed;
    if (
      known !== null &&
      known.log === tree.log &&
      known.size === tree.size &&
      areSame(known.root, tree.root)
    )
      return true;
    this.#confirmed = null;
    // The empty tree contradicts none, so its checkpoint may be signed to ask with.
    const asked = tree.signed === null ? await appendHeads(this.#deps, tree, []) : tree;
    // One that is slower than the quorum may be the only one that holds what was lost.
    const round = await publishTree(this.#deps, this.#witnesses, asked, 'all');
    if (await this.#isContradicted(asked, round.shown)) return false;
    const isConfirmed = this.#deps.witnesses === null || round.isWitnessed;
    this.#tell(isConfirmed ? null : 'unconfirmed');
    if (!isConfirmed) return false;
    this.#confirmed = asked;
    this.#publishedAt = this.#deps.clock.monotonic();
    return true;
  }

  /** False: there was nothing to do, as the first look has shown, which is one transaction. */
  async #pass({ log, size }: LogTree, isStopped: () => boolean): Promise<boolean> {
    const { sql, signingKeys, replicaId, witnesses } = this.#deps;
    const [pages, keys] = await sql.begin(async (tx) => {
      await this.#state.refresh(tx);
      const firsts = headSources.map((source) => source(tx, log, null));
      return Promise.all([Promise.all(firsts), changedKeys(tx, log, signingKeys.all())]);
    });
    const { publishedSize = 0, witnessedSize = 0 } = this.#state.published ?? {};
    const isPublished = publishedSize === size && (witnesses === null || witnessedSize === size);
    const isIdle = [...pages, { heads: keys, next: null }].every(
      ({ heads, next }) => heads.length === 0 && next === null,
    );
    if (isIdle && isPublished) return false;
    for (const [place, source] of headSources.entries()) {
      for (let page = pages[place]; page !== undefined; ) {
        if (isStopped() || !(await this.#append(page.heads))) return true;
        if (page.next === null) break;
        // A look at many chains takes longer than the lease.
        if ((await claimLog(sql, { replicaId, forMs: logLimits.writerMs })) === null) return true;
        page = await source(sql, log, page.next);
      }
    }
    if (await this.#append(keys)) await this.#publishNewest();
    return true;
  }

  /** False: the log has moved, or a witness contradicts it. */
  async #append(heads: Parameters<typeof appendHeads>[2]): Promise<boolean> {
    for (let first = 0; first < heads.length; first += logLimits.entriesPerAppendMax) {
      const tree = this.#confirmed;
      if (tree === null) return false;
      try {
        const some = heads.slice(first, first + logLimits.entriesPerAppendMax);
        this.#confirmed = await appendHeads(this.#deps, tree, some);
      } catch (error) {
        this.forget();
        if (error instanceof LogMoved) return false;
        throw error;
      }
      const sinceMs = this.#deps.clock.monotonic() - this.#publishedAt;
      if (sinceMs >= logLimits.publishEveryMs && !(await this.#publishNewest())) return false;
    }
    return true;
  }

  /** False: a witness contradicts it. */
  async #publishNewest(): Promise<boolean> {
    const tree = this.#confirmed;
    if (tree === null) return false;
    const published = await readPublished(this.#deps.sql);
    const isNew =
      published === null ||
      published.publishedSize < tree.size ||
      (this.#deps.witnesses !== null && published.witnessedSize < tree.size);
    if (!isNew) return true;
    const round = await publishTree(this.#deps, this.#witnesses, tree, 'quorum');
    this.#publishedAt = this.#deps.clock.monotonic();
    return !(await this.#isContradicted(tree, round.shown));
  }

  /**
   * While history is known to have gone back, by a sidecar or by one witness, others may hold more of the
   * log: the recovery has to know it, or the log goes on and is contradicted again.
   */
  async #lookForLosses(tree: LogTree): Promise<void> {
    if (tree.signed === null) return;
    const round = await this.#witnesses.cosign(tree, 'all');
    await this.#isContradicted(tree, round.shown);
  }

  async #isContradicted(tree: LogTree, shown: Round['shown']): Promise<boolean> {
    if (shown.length === 0) return false;
    this.#confirmed = null;
    this.#tell('regressed');
    const trees = shown.map(({ witness, size, root, checkpoint }) => ({
      ...{ witness, origin: tree.origin, size, checkpoint, lost: Math.max(size - tree.size, 1) },
      root: Buffer.from(root).toString('base64'),
    }));
    await noteLostTrees(this.#deps.sql, trees, this.#onLostTrees);
    return true;
  }

  #tell(stop: LogState['stop']): void {
    this.#state.stop = stop;
    const news = stop ?? '';
    if (news === this.#told) return;
    this.#told = news;
    const { logger } = this.#deps;
    if (stop === 'regressed')
      logger.error(
        {},
        'a witness holds a tree of the log that the database does not have: history went back. Nothing is signed until agent-trust recover has run (docs/log.md)',
      );
    else if (stop === 'unconfirmed')
      logger.warn(
        {},
        'no quorum of the witnesses has confirmed the tree of the log: nothing is signed until then (docs/log.md)',
      );
    else logger.info({}, 'the transparency log goes on');
  }
}
