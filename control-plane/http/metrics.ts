import type { FastifyInstance } from 'fastify';
import { Histogram } from 'prom-client';
import type { BaseDeps } from '../base/deps.ts';

/** Times every request by route, never by address: addresses contain ids, and labels per id are unbounded. */
export function installRequestMetrics(
  app: FastifyInstance,
  { metrics, logger }: Pick<BaseDeps, 'metrics' | 'logger'>,
): void {
  const durations = new Histogram({
    name: 'agent_trust_http_request_duration_seconds',
    help: 'Time from the head of a request to the end of its answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [metrics],
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.is404 ? 'none' : (request.routeOptions.url ?? 'none');
    const labels = { method: request.method, route, status: String(reply.statusCode) };
    durations.observe(labels, reply.elapsedTime / 1_000);
    logger.debug({ ...labels, request_id: request.id, duration_ms: reply.elapsedTime }, 'answered');
  });
}
