import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Counter } from 'prom-client';
import { limits } from '../../shared/model/limits.ts';
import { parseSettlementCall } from '../../shared/wire/settlement.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../http/auth.ts';
import { refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import { settle } from './settle.ts';

/** Decisions of sidecars that must be true for all of them. Not a public interface; shared/wire/settlement.ts says what the answers mean. */
export function settlementRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  const settled = new Counter({
    name: 'agent_trust_settlements_total',
    help: 'Settlements of sidecars by what they were answered. refused wants to be looked at: each is told in the log.',
    labelNames: ['kind', 'answer'],
    registers: [deps.metrics],
  });

  return async (app) => {
    app.post(
      '/sync/settlements',
      { config: { scope: 'sidecars:connect' }, bodyLimit: limits.ingestBodyBytesMax },
      async (request, reply) => {
        const { accountId } = callerOf(request);
        const call = parseSettlementCall(request.body, accountId);
        const arrivedAtMs = deps.clock.monotonic() - reply.elapsedTime;
        const answer = await settle(deps, accountId, call, arrivedAtMs);
        settled.inc({ kind: call.kind, answer: answer.kind });
        switch (answer.kind) {
          case 'superseded':
            return refuseSupersededConnection(reply);
          case 'reconnect':
            return refuseUnknownConnection(reply);
          case 'refused':
            deps.logger.warn(
              { sidecar_id: call.sidecar_id, kind: call.kind, message: answer.message },
              'a settlement of a sidecar was refused',
            );
            return answer;
          default:
            return answer;
        }
      },
    );
  };
}
