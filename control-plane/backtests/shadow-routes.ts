import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type Static, Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { DifferenceAnswer } from '../../shared/wire/api/difference.ts';
import { GateAnswer, renderGate } from '../../shared/wire/api/gate.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { findGate } from '../gates/gate-store.ts';
import { gateTag } from '../gates/gate-tag.ts';
import { callerOf } from '../http/caller.ts';
import { readIfMatch } from '../http/entity-tag.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { promoteShadow } from './promote-shadow.ts';
import { reportShadow } from './shadow-report.ts';

const alsoScope = 'attestations:read';

const api = operationsOf('Gates', {
  getShadowReport: {
    scope: 'gates:read',
    summary: 'See what the shadow of a gate would have decided',
    description:
      'Of the newest shadow, in force or ended, from the records that name it. Limits of windows are summed over them in their order. ' +
      `Answers what some seconds can read: \`until\` says where it ends. Needs the scope \`${alsoScope}\`, too.`,
    errors: ['gate_not_found', 'shadow_not_found'],
  },
  promoteShadow: {
    scope: 'gates:update',
    summary: 'Make the shadow of a gate its policy',
    description:
      'A change of the gate as any other. `If-Match` with the tag of the gate is required; a shadow that was made of another policy than the live one is 412. ' +
      '`promoted` of the gate compares what the shadow said with what the gate decides since.',
    errors: ['gate_not_found', 'shadow_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
  },
});
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

const ReportQuery = Type.Object({
  since: Type.Optional(Type.String()),
  until: Type.Optional(Type.String()),
});

/** What shadows have said, and how one becomes the policy of its gate (contract §4). */
export function shadowReportRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/gates/:id/shadow/report',
      {
        config: api.getShadowReport,
        schema: { params: IdParams, querystring: ReportQuery, response: { 200: DifferenceAnswer } },
      },
      async (request) => {
        const caller = callerOf(request);
        const gateId = gateIdOf(request.params.id);
        if (!holdsScope(caller.scopes, alsoScope)) {
          throw new ApiError('insufficient_scope', {
            message: `This endpoint also requires the scope ${alsoScope}.`,
          });
        }
        if ((await findGate(deps.sql, caller, gateId)) === null) throw new ApiError('gate_not_found');
        const { since, until } = request.query;
        const report = await reportShadow(deps, caller, { gateId, since, until });
        return report as Static<typeof DifferenceAnswer>;
      },
    );

    app.post(
      '/gates/:id/shadow/promote',
      { config: api.promoteShadow, schema: { params: IdParams, response: { 200: GateAnswer } } },
      async (request, reply) => {
        const header = request.headers['if-match'];
        const gate = await promoteShadow(deps, callerOf(request), {
          gateId: gateIdOf(request.params.id),
          ifMatch: header === undefined ? null : readIfMatch(header),
        });
        reply.header('etag', gateTag(gate));
        return renderGate(gate, deps.gateHost);
      },
    );
  };
}
