import { limits } from '../../shared/model/limits.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { appendRecords } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { quotaLimits } from '../book/limits.ts';
import { keepBook } from '../book/post.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { decisionsLimits } from './limits.ts';
import type { SettlementId } from './settlement.ts';
import { voidSettlements } from './void-settlements.ts';

/** Voids the control plane's own settlements after an unconfirmed commit. */
export interface VoidQueue {
  /** Voids the settlement as soon as the database answers again. The client got an error. */
  add(id: SettlementId): void;
  /** Retries the rest once, then stops. Resolves when nothing is in flight. */
  stop(): Promise<void>;
}

type VoidDeps = Pick<
  AppendingDeps,
  'sql' | 'clock' | 'random' | 'baseUrl' | 'signingKeys' | 'appending' | 'logger'
>;

/**
 * Retries each void every `limits.voidRetryMs` until it succeeds. One outage adds at most the checks of all
 * batches in flight.
 */
export function voidQueue(deps: VoidDeps): VoidQueue {
  const waiting = new Set<SettlementId>();
  const wakeup = makeWakeup();
  let running: Promise<void> | null = null;
  let isStopped = false;

  const voidSome = async (): Promise<void> => {
    const unknown = [...waiting]
      .slice(0, decisionsLimits.voidsAtOnceMax)
      .map((id) => ({ id, took: [], amountMicroUsd: null }));
    const nowMs = deps.clock.now();
    await deps.sql.begin(async (tx) => {
      await boundWaits(tx, { lockMsMax: quotaLimits.changeLockMsMax });
      const by = { source: 'control-plane', sourceAccount: null, nowMs } as const;
      await keepBook(tx, nowMs, async (book) => {
        await appendRecords(tx, deps, await voidSettlements(tx, deps, book, unknown, by));
      });
    });
    for (const { id } of unknown) waiting.delete(id);
    deps.logger.warn({ count: unknown.length }, 'decisions whose commit was not confirmed were voided');
  };

  const run = async (): Promise<void> => {
    while (waiting.size > 0) {
      try {
        await voidSome();
      } catch (error) {
        deps.logger.debug({ err: error }, 'decisions cannot be voided yet');
        if (isStopped) break;
        await wakeup.sleep(limits.voidRetryMs);
      }
    }
    running = null;
  };

  return {
    add: (id) => {
      waiting.add(id);
      running ??= run();
    },
    stop: async () => {
      isStopped = true;
      wakeup.wake();
      await running;
      if (waiting.size > 0)
        deps.logger.error(
          { settlement_ids: [...waiting] },
          'decisions whose commit was not confirmed could not be voided',
        );
    },
  };
}
