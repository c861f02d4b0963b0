import { limits } from '../../shared/model/limits.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { parseFeedMessage } from '../../shared/wire/sync/sync-schema.ts';
import { dueWorkOf } from '../storage/due-work.ts';
import type { SigningDeps } from './deps.ts';

/**
 * Keeps the keys of this replica at what the database says, whichever replica rotates one: within
 * `limits.signingKeysReadIntervalMs`, by the pulse or by a look, and at once when the push announces a
 * change. A coming key is therefore known here long before it signs. A compromised one may sign here until
 * then; what it signs in that time is blocked everywhere, like all that it ever signed. A bad row is logged
 * when it is first seen, at the start too.
 *
 * Never throws. While the database is away nothing can be signed and stored anyway; trouble is logged when it
 * begins and when it ends.
 */
export function followSigningKeys(deps: Pick<SigningDeps, 'sql' | 'bus' | 'signingKeys' | 'logger'>): {
  stop(): Promise<void>;
} {
  const { bus, signingKeys, logger, sql } = deps;
  const hint = makeWakeup();
  const stopping = makeWakeup();
  let isStopped = false;
  let isFailing = false;
  let seen = signingKeys.all();

  let reported: ReturnType<SigningDeps['signingKeys']['bad']> = [];
  const reportBad = () => {
    const bad = signingKeys.bad();
    if (bad === reported) return;
    const before = new Set(reported.map((row) => JSON.stringify(row)));
    const fresh = bad.filter((row) => !before.has(JSON.stringify(row)));
    if (fresh.length > 0)
      logger.error(
        { count: fresh.length, rows: fresh.slice(0, badRowsLogged) },
        'rows of signing_keys are not of this service: nothing is published or signed by them. Find out who wrote to the database, and delete them',
      );
    reported = bad;
  };

  const reload = async () => {
    try {
      await signingKeys.reload();
      if (isFailing) logger.info({}, 'the signing keys can be read again');
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        logger.warn({ err: error }, 'the signing keys cannot be read; the last known ones stay in use');
      isFailing = true;
    }
    reportBad();
    // None: they were sealed anew.
    const kids = changedSince(seen, signingKeys.all());
    if (kids.length > 0) logger.info({ kids }, 'signing keys have changed');
    seen = signingKeys.all();
  };

  const run = async () => {
    dueWorkOf(sql).wakes.set('keys', hint.wake);
    const stopWaking = bus.onInterrupted(hint.wake);
    const unsubscribe = await bus.subscribe(feedChannel(globalFeed), (text) => {
      // Only a hint to read the database, so it needs no signature.
      if (parseFeedMessage(text)?.kind === 'signing_key.put') hint.wake();
    });
    while (!isStopped) {
      await reload();
      // First the pause that nothing shortens, or a flood of pushes would become one of queries.
      await stopping.sleep(limits.pullGapMsMin);
      const pauseMs = dueWorkOf(sql).pauseMs(limits.signingKeysReadIntervalMs);
      if (!isStopped) await hint.sleep(pauseMs - limits.pullGapMsMin);
    }
    stopWaking();
    await unsubscribe();
  };

  const running = run();
  return {
    /** Resolves when the last look is over. */
    stop: async () => {
      isStopped = true;
      stopping.wake();
      hint.wake();
      await running;
    },
  };
}

/** Forged rows may be many. */
const badRowsLogged = 10;

type Keys = ReturnType<SigningDeps['signingKeys']['all']>;

const changedSince = (before: Keys, now: Keys): string[] => {
  const known = new Set(before.map((key) => JSON.stringify(key)));
  return now.filter((key) => !known.has(JSON.stringify(key))).map(({ kid }) => kid);
};
