import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import { ConditionCheck, ConditionCheckBody } from '../../shared/wire/api/conditions.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
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
} from '../../shared/wire/api/gate.ts';
import { GateUsageAnswer, GateUsageQuery, renderLimitUsage } from '../../shared/wire/api/gate-usage.ts';
import {
  NamedListQuery,
  PageAnswer,
  PagingQuery,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import { GatePolicyItem, PolicyAnswer, renderGatePolicy } from '../../shared/wire/evidence/policy.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { readIfMatch } from '../http/entity-tag.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { templateOf } from '../templates/template-of.ts';
import { checkCondition } from './check-condition.ts';
import { createGate, type FirstCatalog } from './create-gate.ts';
import { deleteGate } from './delete-gate.ts';
import { findCountedGate, findGate, hasGateNamed } from './gate-store.ts';
import { gateTag } from './gate-tag.ts';
import { listGatesUseCase } from './list-gates-use-case.ts';
import { findPolicy, listGatePolicies } from './policy-store.ts';
import { readGateUsage } from './read-gate-usage.ts';
import { readPromotion } from './read-promotion.ts';
import { shadowRoutes } from './shadow-routes.ts';
import { updateGate } from './update-gate.ts';

const api = operationsOf('Gates', {
  createGate: {
    scope: 'gates:create',
    creates: true,
    summary: 'Create a gate',
    description:
      '`trust_level` and `trust_profile` are synonyms; one of them is required unless the template has it. A constraint that ' +
      'this build does not enforce is refused, never ignored.',
    errors: ['template_not_found', 'precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
    examples: {
      reference: {
        summary: 'Reference',
        value: {
          name: 'Orders API',
          description: 'Orders of the web shop',
          trust_level: 'L1',
          constraints: { allowed_domains: ['*.example.com'], spend_limits: { per_transaction_usd: 50 } },
        },
      },
      routes: {
        summary: 'For a proxy, with routes',
        value: {
          name: 'Files',
          trust_level: 'L1',
          routes: [
            { methods: ['GET', 'HEAD'], path: '/files/*', permission_key: 'files:read' },
            { methods: ['PUT'], path: '/files/:name', permission_key: 'files:write', amount_usd: 0.01 },
          ],
        },
      },
      machineDescription: {
        summary: 'Machine description, with a catalog',
        value: {
          name: 'Shipping API',
          trust_profile: 'L2',
          catalog: {
            permissions: [
              { key: 'shipments:quote', pricing: { model: 'per_call', price_cents: 2, currency: 'USD' } },
            ],
          },
        },
      },
    },
  },
  listGates: { scope: listGatesUseCase.scope, summary: 'List gates, newest first' },
  getGate: {
    scope: listGatesUseCase.scope,
    summary: 'Get a gate with its constraints and counts',
    errors: ['gate_not_found'],
    headers: ['ETag'],
  },
  getGateUsage: {
    scope: listGatesUseCase.scope,
    tag: 'Statistics',
    summary: 'See what the limits of a gate have left',
    description:
      'The limits of the gate in their windows of now. With `passport_id` also what is counted for that passport, and the limits of its own where it ' +
      'is yours and you may read it. `limit` = `used` + `leased` + `remaining`, unless the limit was lowered. Nothing is reserved by reading.',
    errors: ['gate_not_found', 'passport_not_found'],
  },
  listGatePolicies: {
    scope: listGatesUseCase.scope,
    summary: 'List the policies that a gate has had, newest first',
    description:
      'One for each change of what decides: trust level, constraints, routes or catalog. Policies are kept for ever; records name theirs by its hash.',
    errors: ['gate_not_found'],
  },
  getPolicy: {
    scope: listGatesUseCase.scope,
    summary: 'Get a policy by its hash',
    description:
      'Signed when it was first used. Found are policies that a gate of the caller has had, deleted gates included.',
    errors: ['policy_not_found'],
  },
  updateGate: {
    scope: 'gates:update',
    summary: 'Change a gate',
    description:
      'A JSON merge patch (RFC 7396): absent members stay unchanged, null removes. Reaches every sidecar as fast as a revocation.',
    errors: ['gate_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
    examples: {
      mergePatch: {
        summary: 'One nested value changes',
        value: { constraints: { spend_limits: { per_transaction_usd: 25 } } },
      },
      removal: {
        summary: 'null removes',
        value: { description: null, constraints: { allowed_domains: null } },
      },
    },
  },
  checkCondition: {
    scope: 'gates:read',
    summary: 'Check a condition without writing it',
    description:
      'An expression that is not sound is refused as a write refuses it, with its place in `error.details`. With `gate_id` the warnings name what no ' +
      'pinned tool of the gate takes, and permissions that its catalog lacks.',
    errors: ['gate_not_found'],
    examples: {
      workspace: {
        summary: 'Only below a folder',
        value: {
          require: "request.arguments.path.startsWith('/workspace/')",
          permissions: ['tools:write_file'],
        },
      },
    },
  },
  deleteGate: {
    scope: 'gates:manage',
    summary: 'Delete a gate',
    errors: ['gate_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
  },
});
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

/** Gates of the caller's account and mode (contract §4). Their decisions are in `shared/decision`. */
export function gateRoutes(deps: AppendingDeps, catalogs: FirstCatalog): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(shadowRoutes(deps));
    app.register(creationRoutes(deps, catalogs));
    app.register(readRoutes(deps));
    app.register(policyRoutes(deps));
    app.register(conditionRoutes(deps));
    app.register(changeRoutes(deps));
  };
}

function creationRoutes(deps: AppendingDeps, { publish, onRecord }: FirstCatalog): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/gates',
      { config: api.createGate, schema: { body: GateCreation, response: { 201: GateCreationAnswer } } },
      async (request, reply) => {
        const caller = callerOf(request);
        const template = await templateOf(deps.sql, caller, request.body.template_id);
        const wanted = parseGateCreation(request.body, template);
        return answerCreated(request, reply, {
          named: {
            kind: 'gate',
            name: wanted.policy.name,
            labels: wanted.policy.labels,
            isTaken: hasGateNamed,
          },
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
      {
        config: api.listGates,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(GateListItem) } },
      },
      async (request) => listGatesUseCase.run(deps, callerOf(request), request.query),
    );

    app.get(
      '/gates/:id',
      { config: api.getGate, schema: { params: IdParams, response: { 200: GateWithStatsAnswer } } },
      async (request, reply) => {
        const gate = await findCountedGate(deps.sql, callerOf(request), gateIdOf(request.params.id));
        if (gate === null) throw new ApiError('gate_not_found');
        reply.header('etag', gateTag(gate));
        const promoted = await readPromotion(deps.sql, gate, deps.clock.now());
        return renderGateWithStats(gate, promoted, deps.gateHost);
      },
    );

    app.get(
      '/gates/:id/usage',
      {
        config: api.getGateUsage,
        schema: { params: IdParams, querystring: GateUsageQuery, response: { 200: GateUsageAnswer } },
      },
      async (request) => {
        const { passport_id: passport, user } = request.query;
        const gateId = gateIdOf(request.params.id);
        const passportId = passport === undefined ? null : pathId('pass', passport, 'passport_not_found');
        const nowMs = deps.clock.now();
        const usages = await readGateUsage(deps.sql, callerOf(request), {
          ...{ gateId, passportId, nowMs },
          user: canonicalName(user ?? null),
        });
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

function conditionRoutes({ sql }: Pick<AppendingDeps, 'sql'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/conditions/check',
      {
        config: api.checkCondition,
        schema: { body: ConditionCheckBody, response: { 200: ConditionCheck } },
      },
      async (request) => checkCondition(sql, callerOf(request), request.body),
    );
  };
}

const HashParams = Type.Object({ hash: Type.String({ maxLength: 128 }) });

function policyRoutes({ sql }: Pick<AppendingDeps, 'sql'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/gates/:id/policies',
      {
        config: api.listGatePolicies,
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
      { config: api.getPolicy, schema: { params: HashParams, response: { 200: PolicyAnswer } } },
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
      {
        config: api.updateGate,
        schema: { params: IdParams, body: GatePatch, response: { 200: GateAnswer } },
      },
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
      { config: api.deleteGate, schema: { params: IdParams, response: { 200: GateDeletion } } },
      async (request) => {
        const gateId = gateIdOf(request.params.id);
        const ifMatch = readIfMatch(request.headers['if-match']);
        return renderGateDeletion(gateId, await deleteGate(deps, callerOf(request), { gateId, ifMatch }));
      },
    );
  };
}
