import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId, AttestationId } from '../../shared/model/ids.ts';
import { secondMs } from '../../shared/model/time.ts';
import {
  HoldExtension,
  HoldListQuery,
  OutcomeListQuery,
  OutcomeReport,
  PermitOutcomeAnswer,
  parseOutcome,
  parseRefund,
  RefundRequest,
  ReportedOutcomeAnswer,
  renderPermitOutcome,
  renderReportedOutcome,
} from '../../shared/wire/api/outcome.ts';
import { PageAnswer, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { creator } from '../creation/idempotency.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import type { FairShare } from '../storage/fair-share.ts';
import { type ChangeResult, changePermits, NoRoomForOverrun, onlyResult } from './change-permits.ts';
import { listHolds, readPermit } from './list-holds.ts';
import type { PermitChange } from './permit-change.ts';
import { listReported } from './reported-store.ts';

const api = operationsOf('Money', {
  reportOutcome: {
    scope: 'enforcement:check',
    summary: 'Report the outcome of what a PERMIT allowed',
    description:
      'Of a held PERMIT it settles `amount` (`served`), or all goes back (`failed`). Of another PERMIT it is recorded, and no money moves. ' +
      'The first outcome stands: the same again is answered as before, a different one is 409. Sidecars take outcomes too.',
    errors: ['attestation_not_found', 'outcome_conflict', 'amount_exceeds_hold', 'spend_limit_exceeded'],
    examples: {
      served: { value: { outcome: 'served', amount: 3.2, detail: '640 tokens' } },
      failed: { value: { outcome: 'failed', detail: 'the supplier timed out' } },
    },
  },
  getOutcome: {
    scope: 'attestations:read',
    summary: 'Get what a PERMIT counts now, and why',
    errors: ['attestation_not_found'],
  },
  extendHold: {
    scope: 'enforcement:check',
    summary: 'Extend a hold',
    description: 'It ends `expires_in_s` from now, at most 30 days behind the decision.',
    errors: ['attestation_not_found', 'hold_not_found', 'outcome_conflict'],
    examples: { hour: { value: { expires_in_s: 3600 } } },
  },
  refundPermit: {
    scope: 'enforcement:check',
    creates: true,
    summary: 'Refund what a PERMIT counts, or a part of it',
    description:
      'Of a PERMIT that was settled, or not held. The money goes back into the windows that it was taken from, where these have not ended.',
    errors: ['attestation_not_found', 'outcome_conflict', 'amount_exceeds_hold'],
    examples: { part: { value: { amount: 1.5, reason: 'two chairs came back' } } },
  },
  listHolds: { scope: 'attestations:read', summary: 'List holds at your gates, newest first' },
  listOutcomes: {
    scope: 'attestations:read',
    summary: 'List outcomes that sidecars have taken and that were refused, or wait for their PERMITs',
  },
});
const permitIdOf = (text: string) => pathId('att', text, 'attestation_not_found');
const changing = { params: IdParams, response: { 200: PermitOutcomeAnswer } };

/**
 * Holds, outcomes and refunds of PERMITs at the caller's gates (contract §19). Changes wait for the windows
 * of their money, each on a connection, as decisions do. So they have a part of the same `slots`, and one
 * that waits for too long is refused with `overloaded`, and has changed nothing.
 */
export function outcomeRoutes(
  deps: AppendingDeps & { readonly slots: FairShare<AccountId> },
): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  const changeIn = async (tx: Transaction, caller: Caller, id: AttestationId, change: PermitChange) => {
    const { accountId, mode } = caller;
    const asked = {
      attestationId: id,
      change,
      owner: { accountId, mode },
      source: 'control-plane' as const,
    };
    await boundWaits(tx, { lockMsMax: quotaLimits.changeLockMsMax });
    return changedOr(onlyResult(await changePermits(tx, deps, [asked], deps.clock.now())));
  };
  const change = async (caller: Caller, idText: string, wanted: PermitChange) => {
    const id = permitIdOf(idText);
    const inTurn = () => deps.sql.begin((tx) => changeIn(tx, caller, id, wanted));
    const { permit } = await orNoRoom(deps.slots(caller.accountId, inTurn));
    return renderPermitOutcome(permit);
  };

  return async (app) => {
    app.post(
      '/attestations/:id/outcome',
      {
        config: api.reportOutcome,
        schema: { ...changing, body: OutcomeReport },
        // As decisions: the sidecar does not look at it, and this program takes what it takes.
        onRequest: async ({ headers }) => {
          headers['content-type'] = 'application/json';
        },
      },
      async (request) =>
        change(callerOf(request), request.params.id, { kind: 'outcome', ...parseOutcome(request.body) }),
    );

    app.get('/attestations/:id/outcome', { config: api.getOutcome, schema: changing }, async (request) => {
      const permit = await readPermit(deps.sql, callerOf(request), permitIdOf(request.params.id));
      return renderPermitOutcome(permit);
    });

    app.post(
      '/attestations/:id/hold/extend',
      { config: api.extendHold, schema: { ...changing, body: HoldExtension } },
      async (request) =>
        change(callerOf(request), request.params.id, {
          kind: 'extend',
          expiresInMs: request.body.expires_in_s * secondMs,
        }),
    );

    app.post(
      '/attestations/:id/refund',
      {
        config: api.refundPermit,
        schema: { params: IdParams, body: RefundRequest, response: { 201: PermitOutcomeAnswer } },
      },
      async (request, reply) => {
        const caller = callerOf(request);
        const id = permitIdOf(request.params.id);
        const { amountMicroUsd } = parseRefund(request.body);
        const { reason = null } = request.body;
        return deps.slots(caller.accountId, () =>
          answerCreated(request, reply, {
            create: (tx) => changeIn(tx, caller, id, { kind: 'refund', amountMicroUsd }),
            render: ({ permit }) => renderPermitOutcome(permit),
            audit: ({ permit, before }) => ({
              operation: 'refundPermit',
              target: id,
              before: { ...renderPermitOutcome(before) },
              after: { ...renderPermitOutcome(permit), reason },
            }),
          }),
        );
      },
    );

    await app.register(listRoutes(deps));
  };
}

const listRoutes =
  (deps: AppendingDeps): FastifyPluginAsyncTypebox =>
  async (app) => {
    app.get(
      '/holds',
      {
        config: api.listHolds,
        schema: { querystring: HoldListQuery, response: { 200: PageAnswer(PermitOutcomeAnswer) } },
      },
      async (request) => {
        const { status = null, gate_id: gateId = null } = request.query;
        const caller = callerOf(request);
        const page = placePage(request.query, caller, 'holds', [status, gateId]);
        return renderPage(
          await listHolds(deps.sql, caller, { status, gateId, page }),
          page,
          renderPermitOutcome,
        );
      },
    );

    app.get(
      '/outcomes',
      {
        config: api.listOutcomes,
        schema: { querystring: OutcomeListQuery, response: { 200: PageAnswer(ReportedOutcomeAnswer) } },
      },
      async (request) => {
        const { status = null } = request.query;
        const caller = callerOf(request);
        const page = placePage(request.query, caller, 'outcomes', [status]);
        return renderPage(
          await listReported(deps.sql, caller, { status, page }),
          page,
          renderReportedOutcome,
        );
      },
    );
  };

type Done = Extract<ChangeResult, { readonly kind: 'changed' | 'repeated' }>;

function changedOr(result: ReturnType<typeof onlyResult>): Done {
  if (result.kind === 'unknown') throw new ApiError('attestation_not_found');
  if (result.kind === 'refused') throw new ApiError(result.code, { message: result.message });
  return result;
}

async function orNoRoom<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof NoRoomForOverrun) throw new ApiError('spend_limit_exceeded');
    throw error;
  }
}
