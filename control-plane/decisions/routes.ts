import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import {
  parseCheckBody,
  parseGateChoice,
  parseRequestFacts,
  refuseHoldWithoutGate,
  refuseOtherGate,
} from '../../shared/wire/check.ts';
import { DecisionAnswer, GateTestAnswer } from '../../shared/wire/decision.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { batchRoutes } from './batch-routes.ts';
import { decideRequest, retryUntilMs, tryToDecide } from './decide-request.ts';
import type { DecisionDeps } from './deps.ts';
import type { EnforcementCall } from './enforcement.ts';
import { renderEnforcement } from './render-enforcement.ts';
import { testGateUseCase } from './test-gate-use-case.ts';
import { passportReader } from './token-verifier.ts';

const check = { scope: 'enforcement:check' } as const;
const test = { scope: testGateUseCase.scope } as const;
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
    const readCheck = async (caller: Caller, gate: string, body: unknown): Promise<EnforcementCall> => {
      // Like the sidecar, report an invalid body before an unknown gate.
      const { passport, request: asked } = parseCheckBody(body);
      refuseOtherGate(asked, gate);
      const facts = parseRequestFacts(asked);
      const gateId = gateIdOf(gate);
      const verdict = await verify(passport, caller, gateId);
      return { caller, gateId, token: passport, verdict, asked, request: facts, isTest: false };
    };

    // Before the signature, which costs more than the refusal; behind the body, or the connection would end.
    const preValidation = async (request: FastifyRequest): Promise<void> =>
      deps.checks.refuseFull(callerOf(request).accountId);

    const arrivalOf = (reply: FastifyReply): MonotonicMillis =>
      (deps.clock.monotonic() - reply.elapsedTime) as MonotonicMillis;

    app.post(
      '/gates/:id/check',
      { config: check, schema: { params: IdParams, response: { 200: DecisionAnswer } }, preValidation },
      async (request, reply) => {
        const call = await readCheck(callerOf(request), request.params.id, request.body);
        return renderEnforcement(await decideRequest(deps, { ...call, arrivedAtMs: arrivalOf(reply) }));
      },
    );

    const checkOfBatch: Parameters<typeof batchRoutes>[0] = async ({ caller, gateId, body }, untilMs) => {
      const call = await readCheck(caller, gateId, body);
      const decided = await (untilMs === null ? tryToDecide(deps, call) : decideRequest(deps, call, untilMs));
      return decided === null ? null : renderEnforcement(decided);
    };
    await app.register(batchRoutes(checkOfBatch, () => retryUntilMs(deps)));

    app.post(
      '/enforce',
      { config: check, schema: { response: { 200: DecisionAnswer } }, preValidation },
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
        return renderEnforcement(await decideRequest(deps, asCheck));
      },
    );

    app.post(
      '/gates/:id/test',
      { config: test, schema: { params: IdParams, response: { 200: GateTestAnswer } } },
      async (request) =>
        testGateUseCase.run(deps, callerOf(request), { gateId: request.params.id, body: request.body }),
    );
  };
}
