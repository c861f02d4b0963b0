import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import {
  GateAnswer,
  GateCreation,
  GateCreationAnswer,
  GateDeletion,
  GateListItem,
  GatePatch,
  GateWithStatsAnswer,
  parseGateCreation,
  renderGate,
  renderGateDeletion,
  renderGateWithStats,
  renderNewGate,
} from '../../shared/wire/gate.ts';
import { GateUsageAnswer, GateUsageQuery, renderLimitUsage } from '../../shared/wire/gate-usage.ts';
import { NamedListQuery, PageAnswer, PagingQuery, placePage, renderPage } from '../../shared/wire/paging.ts';
import { GatePolicyItem, PolicyAnswer, renderGatePolicy } from '../../shared/wire/policy.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { readIfMatch } from '../http/entity-tag.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { templateOf } from '../templates/template-of.ts';
import { createGate, type FirstCatalog } from './create-gate.ts';
import { deleteGate } from './delete-gate.ts';
import { findCountedGate, findGate, hasGateNamed } from './gate-store.ts';
import { gateTag } from './gate-tag.ts';
import { listGatesUseCase } from './list-gates-use-case.ts';
import { findPolicy, listGatePolicies } from './policy-store.ts';
import { readGateUsage } from './read-gate-usage.ts';
import { updateGate } from './update-gate.ts';

const create = { scope: 'gates:create', creates: true } as const;
const read = { scope: listGatesUseCase.scope } as const;
const update = { scope: 'gates:update' } as const;
const manage = { scope: 'gates:manage' } as const;
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

/** Gates of the caller's account and mode (contract §4). Their decisions are in `shared/decision`. */
export function gateRoutes(deps: AppendingDeps, catalogs: FirstCatalog): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(creationRoutes(deps, catalogs));
    app.register(readRoutes(deps));
    app.register(policyRoutes(deps));
    app.register(changeRoutes(deps));
  };
}

function creationRoutes(deps: AppendingDeps, { publish, onRecord }: FirstCatalog): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/gates',
      { config: create, schema: { body: GateCreation, response: { 201: GateCreationAnswer } } },
      async (request, reply) => {
        const caller = callerOf(request);
        const template = await templateOf(deps.sql, caller, request.body.template_id);
        const wanted = parseGateCreation(request.body, template);
        return answerCreated(request, reply, {
          named: { kind: 'gate', name: wanted.policy.name, isTaken: hasGateNamed },
          create: (tx, change) => createGate(tx, change, deps, { caller, wanted, publish }),
          render: ({ gate, catalog }) => renderNewGate(gate, catalog, deps.gateHost),
          audit: ({ gate, catalog }) => ({
            operation: 'createGate',
            target: gate.gateId,
            before: null,
            after: {
              ...renderGate(gate, deps.gateHost),
              ...(catalog === null ? {} : { catalog: onRecord(catalog) }),
            },
          }),
        });
      },
    );
  };
}

function readRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/gates',
      { config: read, schema: { querystring: NamedListQuery, response: { 200: PageAnswer(GateListItem) } } },
      async (request) => listGatesUseCase.run(deps, callerOf(request), request.query),
    );

    app.get(
      '/gates/:id',
      { config: read, schema: { params: IdParams, response: { 200: GateWithStatsAnswer } } },
      async (request, reply) => {
        const gate = await findCountedGate(deps.sql, callerOf(request), gateIdOf(request.params.id));
        if (gate === null) throw new ApiError('gate_not_found');
        reply.header('etag', gateTag(gate));
        return renderGateWithStats(gate, deps.gateHost);
      },
    );

    app.get(
      '/gates/:id/usage',
      {
        config: read,
        schema: { params: IdParams, querystring: GateUsageQuery, response: { 200: GateUsageAnswer } },
      },
      async (request) => {
        const { passport_id: passport } = request.query;
        const gateId = gateIdOf(request.params.id);
        const passportId = passport === undefined ? null : pathId('pass', passport, 'passport_not_found');
        const nowMs = deps.clock.now();
        const usages = await readGateUsage(deps.sql, callerOf(request), { gateId, passportId, nowMs });
        return {
          gate_id: gateId,
          passport_id: passportId,
          read_at: renderTime(nowMs),
          limits: usages.map(renderLimitUsage),
        };
      },
    );
  };
}

const HashParams = Type.Object({ hash: Type.String({ maxLength: 128 }) });

function policyRoutes({ sql }: Pick<AppendingDeps, 'sql'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/gates/:id/policies',
      {
        config: read,
        schema: {
          params: IdParams,
          querystring: PagingQuery,
          response: { 200: PageAnswer(GatePolicyItem) },
        },
      },
      async (request) => {
        const caller = callerOf(request);
        const gateId = gateIdOf(request.params.id);
        if ((await findGate(sql, caller, gateId)) === null) throw new ApiError('gate_not_found');
        const page = placePage(request.query, caller, 'policies', [gateId]);
        return renderPage(await listGatePolicies(sql, gateId, page), page, renderGatePolicy);
      },
    );

    app.get(
      '/policies/:hash',
      { config: read, schema: { params: HashParams, response: { 200: PolicyAnswer } } },
      async (request) => {
        const policy = await findPolicy(sql, callerOf(request), request.params.hash);
        if (policy === null) throw new ApiError('policy_not_found');
        return policy;
      },
    );
  };
}

function changeRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.put(
      '/gates/:id',
      { config: update, schema: { params: IdParams, body: GatePatch, response: { 200: GateAnswer } } },
      async (request, reply) => {
        const gate = await updateGate(deps, callerOf(request), {
          gateId: gateIdOf(request.params.id),
          patch: request.body,
          ifMatch: readIfMatch(request.headers['if-match']),
        });
        reply.header('etag', gateTag(gate));
        return renderGate(gate, deps.gateHost);
      },
    );

    app.delete(
      '/gates/:id',
      { config: manage, schema: { params: IdParams, response: { 200: GateDeletion } } },
      async (request) => {
        const gateId = gateIdOf(request.params.id);
        const ifMatch = readIfMatch(request.headers['if-match']);
        return renderGateDeletion(gateId, await deleteGate(deps, callerOf(request), { gateId, ifMatch }));
      },
    );
  };
}
