import type { FastifyInstance, FastifyRequest } from 'fastify';
import { assert } from '../../shared/errors/assert.ts';
import { isId, type RequestId } from '../../shared/model/ids.ts';
import type { BaseDeps } from '../base/deps.ts';

/** A `req_` id per request. Never taken from a header: ids must be unique, and they appear in our logs. */
export const requestIdMaker =
  ({ random, clock }: Pick<BaseDeps, 'random' | 'clock'>) =>
  (): string =>
    random.newId('req', clock.now());

/** The id that `requestIdMaker` gave to a request. */
export function requestIdOf({ id }: Pick<FastifyRequest, 'id'>): RequestId {
  assert(isId('req', id), 'every request has an id of ours');
  return id;
}

/** Every answer names its request (contract §12). Errors that never reach a route do so in error-reply. */
export function installRequestId(app: FastifyInstance): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
}
