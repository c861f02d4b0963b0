import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import {
  CheckBody,
  GateTestBody,
  parseCheckBody,
  parseGateChoice,
  parseRequestFacts,
  refuseHoldWithoutGate,
  refuseOtherGate,
} from '../../shared/wire/api/check.ts';
import { DecisionAnswer, GateTestAnswer } from '../../shared/wire/api/decision.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { decisionRequest, exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { batchRoutes } from './batch-routes.ts';
import { decideRequest, retryUntilMs, tryToDecide } from './decide-request.ts';
import type { DecisionDeps } from './deps.ts';
import type { EnforcementCall } from './enforcement.ts';
import { renderEnforcement } from './render-enforcement.ts';
import { testGateUseCase } from './test-gate-use-case.ts';
import { passportReader } from './token-verifier.ts';

const api = operationsOf('Enforcement', {
  checkGate: {
    scope: 'enforcement:check',
    summary: 'Decide whether this passport may do this at this gate, now',
    description:
      'PERMIT, SUSPEND and BLOCK are all a 200. A sidecar answers it much faster, from the same decision core. With ' +
      '`request.idempotency_key` the request is charged once, and a repeat gets the first PERMIT again.',
    errors: ['gate_not_found', 'idempotency_conflict'],
    body: CheckBody,
    examples: { check: { value: { passport: exampleIds.token, request: decisionRequest } } },
  },
  enforce: {
    scope: 'enforcement:check',
    summary: 'Decide without a gate in the URL',
    description:
      'With `request.gate_id` like a check at that gate; without it the passport alone is checked.',
    errors: ['gate_not_found', 'idempotency_conflict'],
    body: CheckBody,
    examples: {
      atGate: {
        summary: 'At a gate',
        value: { passport: exampleIds.token, request: { ...decisionRequest, gate_id: exampleIds.gateId } },
      },
      passportAlone: {
        summary: 'The passport alone',
        value: { passport: exampleIds.token, request: { permission_key: 'orders:create' } },
      },
    },
  },
  testGate: {
    scope: testGateUseCase.scope,
    tag: 'Gates',
    summary: 'Ask what a gate would decide',
    description:
      'The same decision as a check, in another format. Reads live counters without using them, opens no approval, and ignores an ' +
      '`idempotency_key`; the record is marked as a test.',
    errors: ['gate_not_found'],
    body: GateTestBody,
    examples: {
      test: {
        value: {
          passport_token: exampleIds.token,
          requested_action: 'orders:create',
          context: { domain: 'shop.example.com', estimated_cost_usd: 12.5 },
        },
      },
    },
  },
});
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

/**
 * Decisions (contract §5), from the same core as the sidecar's. The sidecar's functions parse the bodies, not
 * schema validation, so both programs accept and refuse the same.
 */
export function enforcementRoutes(deps: DecisionDeps): FastifyPluginAsyncTypebox {
  const verify = passportReader(deps);
  return async (app) => {
    // The sidecar ignores the Content-Type, valid or not. Accept what it accepts.
    app.addHook('onRequest', async ({ headers }) => {
      headers['content-type'] = 'application/json';
    });
    const readCall = async (caller: Caller, gate: string, body: unknown): Promise<EnforcementCall> => {
      // Like the sidecar, report an invalid body before an unknown gate.
      const { passport, request: asked } = parseCheckBody(body);
      refuseOtherGate(asked, gate);
      const facts = parseRequestFacts(asked);
      const gateId = gateIdOf(gate);
      const verdict = await verify(passport, caller, gateId);
      return { caller, gateId, token: passport, verdict, asked, request: facts, isTest: false };
    };

    // Before the signature, which costs more than the refusal; after the body, or the connection would end.
    const preValidation = async (request: FastifyRequest): Promise<void> =>
      deps.checks.refuseFull(callerOf(request).accountId);

    const arrivalOf = (reply: FastifyReply): MonotonicMillis =>
      (deps.clock.monotonic() - reply.elapsedTime) as MonotonicMillis;

    app.post(
      '/gates/:id/check',
      {
        config: api.checkGate,
        schema: { params: IdParams, response: { 200: DecisionAnswer } },
        preValidation,
      },
      async (request, reply) => {
        const call = await readCall(callerOf(request), request.params.id, request.body);
        return renderEnforcement(await decideRequest(deps, { ...call, arrivedAtMs: arrivalOf(reply) }), deps);
      },
    );

    const checkOfBatch: Parameters<typeof batchRoutes>[0] = async ({ caller, gateId, body }, untilMs) => {
      const call = await readCall(caller, gateId, body);
      const decided = await (untilMs === null ? tryToDecide(deps, call) : decideRequest(deps, call, untilMs));
      return decided === null ? null : renderEnforcement(decided, deps);
    };
    await app.register(batchRoutes(checkOfBatch, () => retryUntilMs(deps)));

    app.post(
      '/enforce',
      { config: api.enforce, schema: { response: { 200: DecisionAnswer } }, preValidation },
      async (request, reply) => {
        const arrivedAtMs = arrivalOf(reply);
        const { passport, request: asked } = parseCheckBody(request.body);
        const gateId = parseGateChoice(asked);
        const facts = parseRequestFacts(asked);
        refuseHoldWithoutGate(facts, gateId);
        const caller = callerOf(request);
        const verdict = await verify(passport, caller, gateId);
        const call = { caller, token: passport, verdict, asked };
        const asCheck = { ...call, request: facts, gateId, isTest: false, arrivedAtMs };
        return renderEnforcement(await decideRequest(deps, asCheck), deps);
      },
    );

    app.post(
      '/gates/:id/test',
      { config: api.testGate, schema: { params: IdParams, response: { 200: GateTestAnswer } } },
      async (request) =>
        testGateUseCase.run(deps, callerOf(request), { gateId: request.params.id, body: request.body }),
    );
  };
}
