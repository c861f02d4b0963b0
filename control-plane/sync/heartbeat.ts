import { Counter, Gauge } from 'prom-client';
import { limits } from '../../shared/model/limits.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { type FeedId, feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { signHeartbeat } from '../../shared/wire/sync/sync-signature.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { dueWorkOf } from '../storage/due-work.ts';
import type { PulsePart } from '../storage/pulse.ts';
import { heardHeads, trimChanges } from './feed-store.ts';
import { heardHeadsOf } from './heard-heads.ts';
import { syncLimits } from './limits.ts';
import { seenSidecarsOf } from './seen-sidecars.ts';
import { trimSidecars } from './sidecar-store.ts';

/**
 * With every pulse each replica publishes the current head, read from PostgreSQL, to each feed that a
 * connected sidecar follows (ARCHITECTURE.md, "The change feed"). Without the database there is no heartbeat,
 * and sidecars see their state age. Logs the start and the end of a failure.
 */
export function heartbeats(
  deps: Pick<SigningDeps, 'sql' | 'bus' | 'signingKeys' | 'logger' | 'metrics' | 'replicaId'>,
): PulsePart<readonly (readonly [FeedId, number, string])[]> {
  const outcome = reporter(deps);
  const { sql, bus, replicaId } = deps;
  let globalHead: number | null = null;
  return {
    ask: heardHeads,
    hear: (heads, { atMs, monotonicMs }) => {
      heardHeadsOf(sql).hear(heads, monotonicMs);
      const key = deps.signingKeys.current('sync');
      for (const [feed_id, head] of heads) {
        const beat = signHeartbeat(key, { feed_id, head, replica: replicaId, at_ms: atMs });
        bus.publish(feedChannel(feed_id), JSON.stringify(beat));
        if (feed_id !== globalFeed || head === globalHead) continue;
        globalHead = head;
        // Among what all accounts share are the signing keys.
        dueWorkOf(sql).wake('keys');
      }
      outcome.good();
    },
    fail: outcome.bad,
  };
}

/**
 * Says once a second that the sidecars of this replica are alive, and removes old changes and forgotten
 * sidecars now and then. Never throws.
 */
export function keepSidecars(deps: Pick<SigningDeps, 'sql' | 'clock' | 'logger'>): Repetition {
  const seen = seenSidecarsOf(deps);
  let trimmedAtMs = deps.clock.monotonic();

  const trim = async () => {
    if (deps.clock.monotonic() - trimmedAtMs < syncLimits.changeTrimIntervalMs) return;
    trimmedAtMs = deps.clock.monotonic();
    try {
      await trimChanges(deps.sql, deps.clock.now());
      await trimSidecars(deps.sql);
    } catch (error) {
      // Harmless: the next run finds the same rows.
      deps.logger.warn({ err: error }, 'old changes and sidecars could not be removed');
    }
  };

  seen.isKept = true;
  const repetition = repeat(async () => {
    const startedAtMs = deps.clock.monotonic();
    // The database is away: others report that, and they wait to be written.
    await seen.write().catch(() => undefined);
    await trim();
    return limits.heartbeatIntervalMs - (deps.clock.monotonic() - startedAtMs);
  });
  return {
    ...repetition,
    stop: async () => {
      seen.isKept = false;
      await repetition.stop();
    },
  };
}

/** One log line per change of state, however long a failure lasts. */
function reporter({ logger, metrics }: Pick<SigningDeps, 'logger' | 'metrics'>) {
  const beats = new Counter({
    name: 'agent_trust_heartbeats_total',
    help: 'Rounds of heartbeats to the sidecars, by outcome.',
    labelNames: ['outcome'],
    registers: [metrics],
  });
  const failing = new Gauge({
    name: 'agent_trust_heartbeat_failing',
    help: '1 while heads cannot be read from the database.',
    registers: [metrics],
  });
  let isFailing = false;
  return {
    good: () => {
      beats.inc({ outcome: 'sent' });
      if (isFailing) logger.info({}, 'heartbeats go out again');
      isFailing = false;
      failing.set(0);
    },
    bad: (error: unknown) => {
      beats.inc({ outcome: 'failed' });
      if (!isFailing) logger.warn({ err: error }, 'no heartbeat: the heads of the feeds cannot be read');
      isFailing = true;
      failing.set(1);
    },
  };
}
