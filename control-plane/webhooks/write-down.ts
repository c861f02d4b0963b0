import { Counter, type Registry } from 'prom-client';
import type { Attempt } from './attempt-delivery.ts';
import { settleDeliveries } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { noteStandings, type Standing } from './note-standings.ts';

type WriteDeps = Pick<WebhookDeps, 'sql' | 'clock' | 'logger' | 'metrics' | 'replicaId'>;

/**
 * Writes down what attempts have come to, and what they say about their endpoints. Where it throws, whether
 * anything was written is unknown; writing the same once more does nothing where it was.
 */
export function attemptWriter(deps: WriteDeps): (attempts: readonly Attempt[]) => Promise<void> {
  const { sql, clock, logger, replicaId } = deps;
  const counters = makeCounters(deps.metrics);
  return async (attempts) => {
    if (attempts.length === 0) return;
    await settleDeliveries(
      sql,
      replicaId,
      attempts.map(({ settlement }) => settlement),
    );
    const standings = standingsOf(attempts);
    for (const { webhookId, reason } of await noteStandings(sql, { standings, nowMs: clock.now() })) {
      counters.disabled.inc({ reason });
      logger.warn({ webhook_id: webhookId, reason }, 'a webhook was disabled');
    }
    for (const { hasSucceeded } of attempts) {
      counters.attempts.inc({ outcome: hasSucceeded ? 'succeeded' : 'failed' });
    }
  };
}

function standingsOf(attempts: readonly Attempt[]): Standing[] {
  const standings = new Map<string, Standing>();
  for (const { settlement, hasSucceeded, isGone, pausedUntilMs } of attempts) {
    const { webhookId, era } = settlement.delivery;
    const endpoint = `${webhookId} ${era}`;
    const known = standings.get(endpoint);
    standings.set(endpoint, {
      webhookId,
      era,
      hasSucceeded: hasSucceeded || (known?.hasSucceeded ?? false),
      isGone: isGone || (known?.isGone ?? false),
      pausedUntilMs: pausedUntilMs ?? known?.pausedUntilMs ?? null,
    });
  }
  return [...standings.values()];
}

function makeCounters(metrics: Registry) {
  return {
    attempts: new Counter({
      name: 'agent_trust_webhook_attempts_total',
      help: 'Attempts to deliver an event to an endpoint, by outcome.',
      labelNames: ['outcome'],
      registers: [metrics],
    }),
    disabled: new Counter({
      name: 'agent_trust_webhooks_disabled_total',
      help: 'Endpoints that were disabled because they are gone or keep failing, by reason.',
      labelNames: ['reason'],
      registers: [metrics],
    }),
  };
}
