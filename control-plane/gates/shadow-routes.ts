import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs } from '../../shared/model/time.ts';
import { renderShadow, ShadowAnswer, ShadowDeletion, ShadowPatch } from '../../shared/wire/api/shadow.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { deleteShadow } from './delete-shadow.ts';
import { findGate } from './gate-store.ts';
import { putShadow } from './put-shadow.ts';
import { shadowAt } from './shadow-at.ts';

const api = operationsOf('Gates', {
  putShadow: {
    scope: 'gates:update',
    summary: 'Try a policy beside the one that a gate has',
    description:
      'A JSON merge patch (RFC 7396) on the live policy. From then on each record of the gate says in `shadow` what that policy would have decided. ' +
      'Nobody who is answered notices: it takes no units, opens no approval and calls nobody. It ends when it expires ' +
      `(${limits.shadowDefaultMs / dayMs} days, at most ${limits.shadowMsMax / dayMs}) and with any change of the live policy.`,
    errors: ['gate_not_found'],
    examples: {
      stricter: {
        summary: 'A smaller limit, for a day',
        value: { constraints: { spend_limits: { per_transaction_usd: 25 } }, expires_in_s: 86_400 },
      },
    },
  },
  getShadow: {
    scope: 'gates:read',
    summary: 'Get the policy that a gate tries',
    errors: ['gate_not_found', 'shadow_not_found'],
  },
  deleteShadow: {
    scope: 'gates:update',
    summary: 'End the shadow of a gate',
    errors: ['gate_not_found', 'shadow_not_found'],
  },
});
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

/** Shadows of the caller's gates (contract §4). They are decided by in `shared/decision/shadow.ts`. */
export function shadowRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.put(
      '/gates/:id/shadow',
      {
        config: api.putShadow,
        schema: { params: IdParams, body: ShadowPatch, response: { 200: ShadowAnswer } },
      },
      async (request) => {
        const gateId = gateIdOf(request.params.id);
        return renderShadow(
          gateId,
          await putShadow(deps, callerOf(request), { gateId, patch: request.body }),
        );
      },
    );

    app.get(
      '/gates/:id/shadow',
      { config: api.getShadow, schema: { params: IdParams, response: { 200: ShadowAnswer } } },
      async (request) => {
        const gateId = gateIdOf(request.params.id);
        const gate = await findGate(deps.sql, callerOf(request), gateId);
        if (gate === null) throw new ApiError('gate_not_found');
        const shadow = shadowAt(gate, deps.clock.now());
        if (shadow === null) throw new ApiError('shadow_not_found');
        return renderShadow(gateId, shadow);
      },
    );

    app.delete(
      '/gates/:id/shadow',
      { config: api.deleteShadow, schema: { params: IdParams, response: { 200: ShadowDeletion } } },
      async (request) => {
        const gateId = gateIdOf(request.params.id);
        await deleteShadow(deps, callerOf(request), gateId);
        return { gate_id: gateId, deleted: true as const };
      },
    );
  };
}
