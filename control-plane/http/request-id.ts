import type { FastifyInstance } from 'fastify';
import type { BaseDeps } from '../base/deps.ts';

/**
 * A `req_` id per request. Never taken from a header: two requests must not share one, and it goes into our
 * logs.
 */
export const requestIdMaker =
  ({ random, clock }: Pick<BaseDeps, 'random' | 'clock'>) =>
  (): string =>
    random.newId('req', clock.now());

/** Every answer names its request (contract §12). Errors that never reach a route do so in error-reply. */
export function installRequestId(app: FastifyInstance): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
}
