import { assert } from '../../shared/errors/assert.ts';
import { parseGateTestBody, parseRequestFacts, refuseOtherGate } from '../../shared/wire/api/check.ts';
import { type GateTestAnswer, renderGateTest } from '../../shared/wire/api/decision.ts';
import { pathId } from '../http/path-id.ts';
import type { UseCase } from '../http/use-case.ts';
import { decideRequest } from './decide-request.ts';
import type { DecisionDeps } from './deps.ts';
import { passportReader } from './token-verifier.ts';

/**
 * `POST /gates/:id/test`: what the gate would answer now, with its current counters and approvals. Takes no
 * units and opens no approval. Ignores an idempotency key, so the answer is always current.
 */
export const testGateUseCase = {
  scope: 'gates:read',
  run: async (deps, caller, { gateId: text, body }): Promise<GateTestAnswer> => {
    const gateId = pathId('gate', text, 'gate_not_found');
    const { passport, request: asked } = parseGateTestBody(body);
    refuseOtherGate(asked, text, 'context');
    const request = parseRequestFacts(asked, 'context');
    const verdict = await passportReader(deps)(passport, caller, gateId);
    const call = { caller, gateId, token: passport, verdict, asked, request, isTest: true };
    const enforcement = await decideRequest(deps, call);
    assert(enforcement.kind === 'decided', 'a gate test claims no key and replays nothing');
    return renderGateTest({ ...enforcement, gateId, timestampMs: enforcement.decidedAtMs });
  },
} as const satisfies UseCase<
  DecisionDeps,
  { readonly gateId: string; readonly body: unknown },
  GateTestAnswer
>;
