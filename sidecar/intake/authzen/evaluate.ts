import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { type ApiError, invalidRequest } from '../../../shared/errors/api-error.ts';
import type { RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import {
  endsEvaluations,
  evaluationJson,
  readEvaluation,
  readEvaluations,
} from '../../../shared/wire/api/authzen.ts';
import { assertSingleCheck, lossesByIndex } from '../../../shared/wire/api/check-batch.ts';
import { assertLossless, assertSafeJson } from '../../../shared/wire/api/json.ts';
import type { CheckHead } from '../../decide/check.ts';
import { jsonReply } from '../../decide/replies.ts';
import type { LargeBody, Reply, Responder } from '../../http/server.ts';
import { canonicalCheck, parseUncheckedBody } from '../read-check.ts';
import { type CheckItem, type CheckList, SeveralChecks, type SeveralChecksDeps } from '../several-checks.ts';

/** The caller of an evaluation. The gate is in its body. */
type Evaluator = Omit<CheckHead, 'gateId'>;

interface EvaluateDeps extends SeveralChecksDeps {
  /** Of the access request endpoint, at the control plane. */
  readonly requestsUrl: string;
}

/**
 * `POST /access/v1/evaluation` and `/access/v1/evaluations` (OpenID AuthZEN Authorization API 1.0 §6 and §7;
 * contract §16): `check` in other words. `decision` is true for a PERMIT and for nothing else, and `context`
 * is the answer of `check`. Every evaluation is recorded, charged and limited as a check is.
 */
export const evaluate = (deps: EvaluateDeps, evaluator: Evaluator, isBoxcar: boolean): LargeBody => ({
  bytesMax: isBoxcar ? limits.batchBodyBytesMax : limits.bodyBytesMax,
  handle: (body, responder) => {
    const { requestId, traceparent } = evaluator;
    const checks = new SeveralChecks(deps, {
      list: (bytes) => (isBoxcar ? listMany : listOne)(deps, evaluator, bytes, responder),
      requestId,
      traceparent,
      responder,
      onRefused: (error) => responder.reply(deps.answers.failure(error, requestId, traceparent)),
    });
    if (isBoxcar) checks.begin(body);
    else checks.beginAtOnce(body);
  },
});

type List = (deps: EvaluateDeps, evaluator: Evaluator, bytes: Buffer, responder: Responder) => CheckList;

const listOne: List = (deps, evaluator, bytes, responder) => {
  const { text, value: body } = parseUncheckedBody(bytes);
  const item = itemOf(deps, evaluator, {
    ...{ body, batchBytes: bytes.byteLength },
    assertWhole: () => assertLossless(text, body),
  });
  return { items: [item], onEnd: ([reply]) => answerOne(deps, reply, responder, evaluator.requestId) };
};

const listMany: List = (deps, evaluator, bytes, responder) => {
  const unchecked = parseUncheckedBody(bytes);
  const evaluations = readEvaluations(unchecked.value);
  if (evaluations === null) return listOne(deps, evaluator, bytes, responder);
  const { bodies, semantic } = evaluations;
  const losses = lossesByIndex(unchecked, 'evaluations');
  return {
    items: bodies.map((body, index) =>
      itemOf(deps, evaluator, {
        ...{ body, batchBytes: bytes.byteLength },
        assertWhole: () => {
          const loss = losses.get(index);
          if (loss !== undefined) throw loss;
        },
      }),
    ),
    ...(semantic !== 'execute_all' && { endsWith: (reply) => endsEvaluations(semantic, isPermit(reply)) }),
    onEnd: (replies) => {
      const answers = replies.map((reply) => evaluationJson(reply, deps.requestsUrl)).join(',');
      responder.reply(jsonReply(200, `{"evaluations":[${answers}]}`, evaluator.requestId));
    },
  };
};

/** Where there is no decision, the answer is the error, with its status. */
function answerOne(
  { requestsUrl }: EvaluateDeps,
  reply: Reply | undefined,
  responder: Responder,
  requestId: RequestId,
): void {
  if (reply === undefined) return;
  const isDecided = reply.status === 200;
  responder.reply(isDecided ? jsonReply(200, evaluationJson(reply, requestsUrl), requestId) : reply);
}

interface UnreadItem {
  readonly body: unknown;
  /** Of the whole body. */
  readonly batchBytes: number;
  /** Throws where reading it has lost something. */
  readonly assertWhole: () => void;
}

const itemOf =
  (deps: EvaluateDeps, evaluator: Evaluator, { body, batchBytes, assertWhole }: UnreadItem): CheckItem =>
  () => {
    assertSafeJson(body);
    assertSingleCheck(body, batchBytes);
    assertWhole();
    const { subjectId, token, gateId, request } = readEvaluation(body);
    if (token === null) throw unknownSubject(deps);
    const read = canonicalCheck({ passport: token, request }, deps.writer, false);
    return {
      head: { ...evaluator, gateId },
      read: { ...read, accept: (passport) => assertSubject(passport, subjectId) },
    };
  };

/** A sidecar knows passports by their tokens alone. */
const unknownSubject = ({ requestsUrl }: EvaluateDeps): ApiError =>
  invalidRequest(
    'subject.properties.passport',
    `subject.properties.passport is required here. To name a subject without its token, ask ${new URL('evaluation', requestsUrl)} with a key that has enforcement:delegate.`,
  );

/** A passport that did not verify says nothing about its agent: it is decided on, and blocked. */
function assertSubject({ agentId, passportId }: VerifiedPassport, subjectId: string): void {
  if (subjectId === agentId || subjectId === passportId) return;
  throw invalidRequest(
    'subject.id',
    'subject.id must be the agent_id or the passport_id of the passport in subject.properties.',
  );
}

const isPermit = ({ status, body }: Reply): boolean =>
  status === 200 && JSON.parse(body).decision === 'PERMIT';
