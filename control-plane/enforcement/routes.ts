import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  parseCheckBody,
  parseGateChoice,
  parseGateTestBody,
  parseRequestFacts,
} from '../../shared/wire/check.ts';
import {
  DecisionAnswer,
  GateTestAnswer,
  renderDecision,
  renderGateTest,
} from '../../shared/wire/decision.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../http/auth.ts';
import { readJson } from '../http/json-body.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { enforce } from './enforce.ts';
import { tokenVerifier } from './token-verifier.ts';

const check = { scope: 'enforcement:check' } as const;
const test = { scope: 'gates:read' } as const;
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

/**
 * Decisions (decisions §5), from the same core as the sidecar's. Bodies are read by the functions that the sidecar reads them with,
 * instead of by validation: both programs take and refuse the same.
 */
export function enforcementRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  const verify = tokenVerifier(deps);
  return async (app) => {
    // The sidecar does not look at the Content-Type: what it takes, this program takes too.
    app.addContentTypeParser('*', readJson);
    app.post(
      '/gates/:id/check',
      { config: check, schema: { params: IdParams, response: { 200: DecisionAnswer } } },
      async (request) => {
        // What is wrong with the body is told before a gate that does not exist, as at the sidecar.
        const asked = parseCheckBody(request.body);
        const facts = parseRequestFacts(asked.request);
        const { decision, attestationId } = await enforce(deps, {
          caller: callerOf(request),
          gateId: gateIdOf(request.params.id),
          verdict: verify(asked.passport),
          request: facts,
          isTest: false,
        });
        return renderDecision(decision, attestationId);
      },
    );

    app.post(
      '/enforce',
      { config: check, schema: { response: { 200: DecisionAnswer } } },
      async (request) => {
        const asked = parseCheckBody(request.body);
        const { decision, attestationId } = await enforce(deps, {
          caller: callerOf(request),
          gateId: parseGateChoice(asked.request),
          verdict: verify(asked.passport),
          request: parseRequestFacts(asked.request),
          isTest: false,
        });
        return renderDecision(decision, attestationId);
      },
    );

    app.post(
      '/gates/:id/test',
      { config: test, schema: { params: IdParams, response: { 200: GateTestAnswer } } },
      async (request) => {
        const gateId = gateIdOf(request.params.id);
        const asked = parseGateTestBody(request.body);
        const { decision, attestationId, agentId, decidedAtMs } = await enforce(deps, {
          caller: callerOf(request),
          gateId,
          verdict: verify(asked.passport),
          request: parseRequestFacts(asked.request, 'context'),
          isTest: true,
        });
        return renderGateTest({ decision, attestationId, gateId, agentId, timestampMs: decidedAtMs });
      },
    );
  };
}
