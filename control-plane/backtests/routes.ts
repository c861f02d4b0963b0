import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Backtest } from '../../shared/model/backtest.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { BacktestAnswer, BacktestRequest, renderBacktest } from '../../shared/wire/api/backtest.ts';
import type { BaseDeps } from '../base/deps.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { cancelBacktest, findBacktest } from './backtest-store.ts';
import { startBacktest } from './start-backtest.ts';

const alsoScope = 'attestations:read';
const scopes = `Needs the scope \`${alsoScope}\`, too.`;

const api = operationsOf('Gates', {
  startBacktest: {
    scope: 'gates:read',
    summary: 'See what a policy would have decided',
    description:
      `Decides the records of the gate again, by its policy with this patch, in the background. ${scopes} One at a time for an account; ` +
      'what records do not say is counted as undecided, by cause. Nothing in the gate changes.',
    errors: ['gate_not_found', 'backtest_running'],
    examples: {
      lower: {
        summary: 'A lower limit, over the last 30 days',
        value: { constraints: { spend_limits: { per_transaction_usd: 20 } } },
      },
    },
  },
  getBacktest: {
    scope: 'gates:read',
    summary: 'Get a backtest, with its report once it is done',
    description: `Kept for 7 days. ${scopes}`,
    errors: ['backtest_not_found'],
  },
  cancelBacktest: {
    scope: 'gates:read',
    summary: 'Cancel a backtest',
    description: `One that has ended stays as it is. ${scopes}`,
    errors: ['backtest_not_found'],
  },
});

/** Reports say what records say. */
function readerOf(caller: Caller): Caller {
  if (holdsScope(caller.scopes, alsoScope)) return caller;
  throw new ApiError('insufficient_scope', {
    message: `This endpoint also requires the scope ${alsoScope}.`,
  });
}

/** Backtests of the caller's gates (contract §4). */
export function backtestRoutes(deps: BaseDeps): FastifyPluginAsyncTypebox {
  const { sql, clock } = deps;
  const found = async (caller: Caller, id: string): Promise<Backtest> => {
    const backtestId = pathId('bt', id, 'backtest_not_found');
    const backtest = await findBacktest(sql, readerOf(caller), backtestId);
    if (backtest === null) throw new ApiError('backtest_not_found');
    return backtest;
  };
  return async (app) => {
    app.post(
      '/gates/:id/backtest',
      {
        config: api.startBacktest,
        schema: { params: IdParams, body: BacktestRequest, response: { 202: BacktestAnswer } },
      },
      async (request, reply) => {
        const gateId = pathId('gate', request.params.id, 'gate_not_found');
        const caller = readerOf(callerOf(request));
        const backtest = await startBacktest(deps, caller, { gateId, request: request.body });
        return reply.code(202).send(renderBacktest(backtest));
      },
    );

    app.get(
      '/backtests/:id',
      { config: api.getBacktest, schema: { params: IdParams, response: { 200: BacktestAnswer } } },
      async (request) => renderBacktest(await found(callerOf(request), request.params.id)),
    );

    app.delete(
      '/backtests/:id',
      { config: api.cancelBacktest, schema: { params: IdParams, response: { 200: BacktestAnswer } } },
      async (request) => {
        const caller = callerOf(request);
        const { backtestId } = await found(caller, request.params.id);
        await cancelBacktest(sql, backtestId, clock.now());
        return renderBacktest(await found(caller, backtestId));
      },
    );
  };
}
