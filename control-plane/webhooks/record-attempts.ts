import { Counter, type Registry } from 'prom-client';
import type { Attempt } from './attempt-delivery.ts';
import { recordResults } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { type EndpointResults, updateEndpointHealth } from './update-endpoint-health.ts';

type WriteDeps = Pick<WebhookDeps, 'sql' | 'clock' | 'logger' | 'metrics' | 'replicaId'>;

/**
 * Writes down what attempts have come to, and what they say about their endpoints. Where it throws, whether
 * anything was written is unknown; writing the same once more does nothing where it was.
 */
export function makeAttemptRecorder(deps: WriteDeps): (attempts: readonly Attempt[]) => Promise<void> {
  const { sql, clock, logger, replicaId } = deps;
  const counters = makeCounters(deps.metrics);
  return async (attempts) => {
    if (attempts.length === 0) return;
    await recordResults(
      sql,
      replicaId,
      attempts.map(({ result }) => result),
    );
    const endpoints = endpointResultsOf(attempts);
    for (const { webhookId, reason } of await updateEndpointHealth(sql, { endpoints, nowMs: clock.now() })) {
      counters.disabled.inc({ reason });
      logger.warn({ webhook_id: webhookId, reason }, 'a webhook was disabled');
    }
    for (const { hasSucceeded } of attempts) {
      counters.attempts.inc({ outcome: hasSucceeded ? 'succeeded' : 'failed' });
    }
  };
}

function endpointResultsOf(attempts: readonly Attempt[]): EndpointResults[] {
  const standings = new Map<string, EndpointResults>();
  for (const { result, hasSucceeded, isGone, pausedUntilMs } of attempts) {
    const { webhookId, generation, attempts: before, tries, isTest } = result.delivery;
    // What its owner sends, as a test or once more, is no sign of how it does.
    const isOwners = isTest || before > tries;
    const endpoint = `${webhookId} ${generation}`;
    const earlier = standings.get(endpoint);
    standings.set(endpoint, {
      webhookId,
      generation: generation,
      succeeded: (earlier?.succeeded ?? 0) + (hasSucceeded && !isOwners ? 1 : 0),
      failed: (earlier?.failed ?? 0) + (hasSucceeded || isOwners ? 0 : 1),
      isGone: (isGone && !isOwners) || (earlier?.isGone ?? false),
      pausedUntilMs: pausedUntilMs ?? earlier?.pausedUntilMs ?? null,
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
