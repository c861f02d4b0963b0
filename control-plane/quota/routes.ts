import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { unreachable } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseLeaseCall } from '../../shared/wire/lease-call.ts';
import type { BaseDeps } from '../base/deps.ts';
import { callerOf } from '../http/caller.ts';
import { refuse, refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import { serveLeaseCall } from './serve-lease-call.ts';

/**
 * Endpoint for sidecars to draw on the quota ledger. Not a public interface; shared/wire/lease-call.ts
 * documents the answers.
 */
export function leaseRoutes(deps: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/leases',
      { config: { scope: 'sidecars:connect' }, bodyLimit: limits.leaseCallBytesMax },
      async (request, reply) => {
        const call = parseLeaseCall(request.body);
        const outcome = await serveLeaseCall(deps.sql, callerOf(request).accountId, call, deps.clock.now());
        switch (outcome.kind) {
          case 'answered':
            return outcome.answer;
          case 'superseded':
            return refuseSupersededConnection(reply);
          case 'unknown':
            return refuseUnknownConnection(reply);
          case 'holder_unknown':
            deps.logger.warn({ sidecar_id: call.sidecar_id, seq: call.seq }, 'a sidecar drops its leases');
            return refuse(
              reply,
              409,
              'holder_unknown',
              'No leases of this holder are on record, or none any more.',
            );
          default:
            return unreachable(outcome);
        }
      },
    );
  };
}
