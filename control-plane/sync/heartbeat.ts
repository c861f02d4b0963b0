import { Counter, Gauge } from 'prom-client';
import { limits } from '../../shared/model/limits.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { feedChannel } from '../../shared/wire/sync.ts';
import { signHeartbeat } from '../../shared/wire/sync-signature.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { readHeardHeads, trimChanges } from './feed-store.ts';
import { syncLimits } from './limits.ts';
import { trimSidecars } from './sidecar-store.ts';

/**
 * Every `limits.heartbeatIntervalMs` each replica publishes the current head, read from PostgreSQL, to each
 * feed that a connected sidecar follows (ARCHITECTURE.md, "The change feed"). Without the database there is
 * no heartbeat, and sidecars see their state age. Occasionally it also removes old changes and forgotten
 * sidecars. Never throws; logs the start and the end of a failure.
 */
export function startHeartbeat(
  deps: Pick<SigningDeps, 'sql' | 'clock' | 'bus' | 'signingKeys' | 'logger' | 'metrics' | 'replicaId'>,
): Repetition {
  const outcome = reporter(deps);
  let trimmedAtMs = deps.clock.monotonic();

  const beat = async () => {
    try {
      await publishHeads(deps);
      outcome.good();
    } catch (error) {
      outcome.bad(error);
    }
  };

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

  return repeat(async () => {
    const startedAtMs = deps.clock.monotonic();
    await beat();
    await trim();
    return limits.heartbeatIntervalMs - (deps.clock.monotonic() - startedAtMs);
  });
}

async function publishHeads(
  deps: Pick<SigningDeps, 'sql' | 'clock' | 'bus' | 'signingKeys' | 'replicaId'>,
): Promise<void> {
  // Before the query, so the heads are at most as old as the heartbeat states.
  const atMs = deps.clock.now();
  const heads = await readHeardHeads(deps.sql);
  const key = deps.signingKeys.current('sync');
  for (const { feed_id, revision } of heads) {
    const beat = signHeartbeat(key, { feed_id, head: revision, replica: deps.replicaId, at_ms: atMs });
    deps.bus.publish(feedChannel(feed_id), JSON.stringify(beat));
  }
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
