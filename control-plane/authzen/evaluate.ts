import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { type AuthzenVocabulary, noVocabulary } from '../../shared/model/authzen-vocabulary.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { type Evaluation, evaluationOf, readEvaluation } from '../../shared/wire/api/authzen.ts';
import { hasOtherWords } from '../../shared/wire/api/authzen-search.ts';
import { parseRequestFacts, refuseOtherGate } from '../../shared/wire/api/check.ts';
import { translateEntities } from '../../shared/wire/api/translate-entities.ts';
import { decideRequest, tryToDecide } from '../decisions/decide-request.ts';
import type { DecisionDeps } from '../decisions/deps.ts';
import type { EnforcementCall } from '../decisions/enforcement.ts';
import { renderEnforcement } from '../decisions/render-enforcement.ts';
import { passportReader } from '../decisions/token-verifier.ts';
import type { Caller } from '../http/caller.ts';
import { pathId } from '../http/path-id.ts';
import { readVocabulary } from './vocabulary-store.ts';

/** Decides evaluations of one HTTP request. */
export interface Evaluator {
  /**
   * Throws the refusal of an evaluation. Null: it has to wait for requests in flight; then `untilMs` says how
   * long it may.
   */
  evaluate(body: unknown, untilMs: MonotonicMillis | null): Promise<ReturnType<typeof evaluationOf> | null>;
}

export const evaluators = (deps: DecisionDeps, requestsUrl: string) => {
  const verify = passportReader(deps);
  const verdictOf = async (
    caller: Caller,
    { token, subjectId }: Evaluation,
    gateId: GateId,
  ): Promise<EnforcementCall['verdict']> => {
    if (token === null) {
      refuseUntrusted(caller);
      refuseUnsayable(deps);
      return { kind: 'named', subjectId };
    }
    const verdict = await verify(token, caller, gateId);
    if (verdict.kind === 'refused') return verdict;
    const { agentId, passportId } = verdict.passport;
    if (subjectId !== agentId && subjectId !== passportId) throw otherSubject();
    return verdict;
  };
  return async (
    caller: Caller,
    bodies: readonly unknown[],
    arrivedAtMs?: MonotonicMillis,
  ): Promise<Evaluator> => {
    const vocabulary: AuthzenVocabulary = bodies.some(hasOtherWords)
      ? await readVocabulary(deps.sql, caller)
      : noVocabulary;
    return {
      evaluate: async (body, untilMs) => {
        const evaluation = readEvaluation(body, (entities) => translateEntities(vocabulary, entities));
        const { gateId: gate, request: asked } = evaluation;
        refuseOtherGate(asked, gate);
        const request = parseRequestFacts(asked);
        const gateId = pathId('gate', gate, 'gate_not_found');
        const verdict = await verdictOf(caller, evaluation, gateId);
        const { token } = evaluation;
        const call = { caller, gateId, token: token ?? '', verdict, asked, request, isTest: false };
        const timed = arrivedAtMs === undefined ? call : { ...call, arrivedAtMs };
        const decided = await (untilMs === null
          ? tryToDecide(deps, timed)
          : decideRequest(deps, timed, untilMs));
        return decided === null ? null : evaluationOf(renderEnforcement(decided, deps), requestsUrl);
      },
    };
  };
};

/** Who names a subject without its token is believed: that takes a scope of its own. */
function refuseUntrusted({ scopes }: Pick<Caller, 'scopes'>): void {
  if (holdsScope(scopes, 'enforcement:delegate')) return;
  throw new ApiError('insufficient_scope', {
    message:
      'A subject without properties.passport requires an API key with the scope enforcement:delegate. Or send the passport.',
    param: 'subject.properties.passport',
  });
}

/** Records in form 1 cannot say that a subject was named. */
function refuseUnsayable({ appending }: Pick<DecisionDeps, 'appending'>): void {
  if (appending.recordForm() === 2) return;
  throw new ApiError('service_unavailable', {
    message:
      'Subjects without properties.passport are decided from RECORDS_V2_AFTER_S after the upgrade on. Until then send the passport.',
  });
}

const otherSubject = (): ApiError =>
  invalidRequest(
    'subject.id',
    'subject.id must be the agent_id or the passport_id of the passport in subject.properties.',
  );
