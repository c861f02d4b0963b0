import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { renderTime } from '../../shared/model/time.ts';
import {
  DecisionStatisticsAnswer,
  DecisionStatisticsQuery,
  renderDecisionBucket,
} from '../../shared/wire/api/statistics.ts';
import type { BaseDeps } from '../base/deps.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { pathId } from '../http/path-id.ts';
import { readTimeParameter } from '../http/time-parameter.ts';
import { readStale } from '../storage/replica-reads.ts';
import { readDecisionStatistics, spanOf } from './read-statistics.ts';

const api = operationsOf('Statistics', {
  getDecisionStatistics: {
    scope: 'attestations:read',
    summary: 'Count decisions by time, outcome and reason',
    description:
      'Decisions at your gates, and those without a gate that you may read, by the time at which they were made. Every bucket from `from` to `to` ' +
      'is in the answer, at most 1,440. Minutes are kept for two days, hours and days for 400. Gate tests do not count.',
    errors: ['gate_not_found'],
  },
});

/** How many decisions there were, by time, outcome and reason (contract §9). */
export function statisticsRoutes({ sql, clock }: Pick<BaseDeps, 'sql' | 'clock'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/statistics/decisions',
      {
        config: api.getDecisionStatistics,
        schema: { querystring: DecisionStatisticsQuery, response: { 200: DecisionStatisticsAnswer } },
      },
      async (request) => {
        const { from, to, step, gate_id: gate } = request.query;
        const given = { fromMs: readTimeParameter('from', from), toMs: readTimeParameter('to', to) };
        const span = spanOf(step, given, clock.now());
        // A gate of another account has no counts here, so its existence is not revealed.
        const gateId = gate === undefined ? null : pathId('gate', gate, 'gate_not_found');
        const caller = callerOf(request);
        const buckets = await readStale(sql, caller.accountId, (from) =>
          readDecisionStatistics(from, caller, span, gateId),
        );
        return {
          starts_at: renderTime(span.fromMs),
          ends_at: renderTime(span.toMs),
          step,
          buckets: buckets.map(renderDecisionBucket),
        };
      },
    );
  };
}
