import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Counter } from 'prom-client';
import { must, unreachable } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import {
  type ArrivedCall,
  parseSettlementCall,
  type SettlementCallAnswer,
} from '../../shared/wire/sync/settlement.ts';
import { callerOf } from '../http/caller.ts';
import { refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import type { DecisionDeps } from './deps.ts';
import { settleBatch } from './settle-batch.ts';

/**
 * Settlements and look-ups of sidecars. Not a public interface; shared/wire/sync/settlement.ts says what the
 * answers mean.
 */
export function settlementRoutes(deps: DecisionDeps): FastifyPluginAsyncTypebox {
  const settled = new Counter({
    name: 'agent_trust_settlements_total',
    help: 'Settlements of sidecars, by outcome. Each refused one is logged with its reason.',
    labelNames: ['kind', 'answer'],
    registers: [deps.metrics],
  });

  const report = (call: ArrivedCall, { answers }: SettlementCallAnswer): void => {
    answers.forEach((answer, place) => {
      const { kind } = must(call.settlements[place], 'each answer is to a settlement');
      settled.inc({ kind, answer: answer.kind });
      if (answer.kind !== 'refused') return;
      const what = { sidecar_id: call.sidecar_id, kind, message: answer.message };
      if (answer.is_passing === true) deps.logger.info(what, 'a settlement of a sidecar has to come again');
      else deps.logger.warn(what, 'a settlement of a sidecar was refused');
    });
  };

  return async (app) => {
    app.post(
      '/sync/settlements',
      { config: { scope: 'sidecars:connect' }, bodyLimit: limits.settlementCallBytesMax },
      async (request, reply) => {
        const { accountId, actor } = callerOf(request);
        const call = parseSettlementCall(request.body, accountId);
        const arrivedAtMs = deps.clock.monotonic() - reply.elapsedTime;
        const outcome = await settleBatch(deps, { accountId, keyId: actor.id }, call, arrivedAtMs);
        switch (outcome.kind) {
          case 'answered': {
            const { answers } = outcome;
            report(call, { answers });
            return { answers } satisfies SettlementCallAnswer;
          }
          case 'superseded':
            return refuseSupersededConnection(reply);
          case 'unknown':
            return refuseUnknownConnection(reply);
          default:
            return unreachable(outcome);
        }
      },
    );
  };
}
