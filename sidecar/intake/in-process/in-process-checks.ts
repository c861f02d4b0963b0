import type { CallOptions } from '../../../clients/node/src/call-options.ts';
import { type AgentTrustError, errorOf } from '../../../clients/node/src/errors.ts';
import {
  type CheckInput,
  type Decision,
  details,
  type Unavailable,
  type UnavailableReason,
  unavailable,
} from '../../../clients/node/src/sidecar.ts';
import type { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import { ApiError, invalidRequest, renderError } from '../../../shared/errors/api-error.ts';
import type { RequestId } from '../../../shared/model/ids.ts';
import type { Mode } from '../../../shared/model/mode.ts';
import { secondMs } from '../../../shared/model/time.ts';
import type { Moment } from '../../../shared/runtime/clock.ts';
import type { Random } from '../../../shared/runtime/random.ts';
import { parseGateChoice } from '../../../shared/wire/api/check.ts';
import { parseCheckBatch } from '../../../shared/wire/api/check-batch.ts';
import type { TraceHeaders } from '../../../shared/wire/api/trace-context.ts';
import type { CheckHead, OpenCheck } from '../../decide/check.ts';
import type { CheckReply, CheckResponder } from '../../decide/replies.ts';
import type { Reply } from '../../http/server.ts';
import type { Intake } from '../intake.ts';
import { Lane, type LaneSource } from '../lane.ts';
import type { Outcomes } from '../outcomes.ts';
import { canonicalCheck, type ReadCheck } from '../read-check.ts';
import { SeveralChecks, type SeveralChecksDeps } from '../several-checks.ts';
import { inProcessLimits } from './limits.ts';
import { Pending } from './pending.ts';
import { plainRequest } from './plain-request.ts';

/** What a check takes besides its gate. */
export interface InProcessCheck extends CheckInput {
  /** The same as `request.idempotency_key`. */
  readonly idempotencyKey?: string;
}

/** In place of the id of a gate: the one that `request.gate_id` names, or none. */
export const namedInRequest = Symbol('the gate that the request names');

type Results = readonly (Decision | AgentTrustError)[];

export interface InProcessDeps extends SeveralChecksDeps {
  readonly intake: Intake;
  readonly outcomes: Pick<Outcomes, 'take'>;
  readonly random: Random;
}

/** A check that is decided in a later turn of the event loop. */
interface Waiting {
  readonly check: OpenCheck;
  readonly read: ReadCheck;
}

/**
 * The checks of the program around it, decided as a sidecar decides requests. One is decided before the call
 * returns, and answered when its record is written, at the end of this turn of the event loop. Beyond
 * `inProcessLimits.checksPerTurnMax` they wait for the next turns, in their order.
 */
export class InProcessChecks implements LaneSource {
  readonly isHeld = false;
  readonly #deps: InProcessDeps;
  readonly #lane: Lane;
  readonly #waiting: Waiting[] = [];
  /** Checks without an answer, those of batches included. */
  #unanswered = 0;
  #isStopped = false;
  #whenIdle: () => void = () => undefined;
  readonly #onAnswered = (): void => this.#noteAnswered(1);

  constructor(deps: InProcessDeps) {
    this.#deps = deps;
    this.#lane = new Lane(deps, this);
  }

  ask(gate: string | typeof namedInRequest, check: InProcessCheck, options: CallOptions): Promise<Decision> {
    return new Promise((resolve, reject) => {
      const { intake, writer, turns } = this.#deps;
      // Read once: all until the call returns is one moment.
      const moment = intake.moment();
      this.#unanswered++;
      const pending = new PendingCheck(this.#deps, resolve, reject, this.#onAnswered);
      try {
        pending.watch(options, lateAnswer);
        const read = readGivenCheck(check, writer);
        const gateId = gate === namedInRequest ? gateNamedIn(check, read) : gateOf(gate);
        const head = this.#admit(gateId, pending, options);
        const opened = intake.open(head, pending, moment.monotonicMs, moment);
        if (turns.tryTake()) intake.ask(opened, read, moment);
        else {
          this.#waiting.push({ check: opened, read });
          this.#lane.wake();
        }
      } catch (error) {
        if (!(error instanceof ApiError)) return pending.reject(error);
        pending.settle(outcomeOf(this.#deps.answers.failure(error, pending.requestId), pending));
      }
    });
  }

  /** The outcome of a PERMIT. Resolves when it is in the spool. */
  report(attestationId: string, outcome: unknown, mode: Mode): Promise<void> {
    return new Promise((resolve, reject) => {
      const requestId = newRequestId(this.#deps);
      const settle = (reply: Reply): void => {
        if (reply.status === 202) resolve();
        else
          reject(errorOf({ status: reply.status, text: String(reply.body), requestId, retryAfterMs: null }));
      };
      try {
        if (this.#isStopped) throw new ApiError('service_unavailable', { message: 'It was stopped.' });
        this.#deps.outcomes.take(attestationId, outcome, { mode, requestId }, { reply: settle });
      } catch (error) {
        settle(this.#deps.answers.failure(error, requestId));
      }
    });
  }

  get hasNext(): boolean {
    return this.#waiting.length > 0;
  }

  /** Null: each goes its own way once its turn has come, so that none waits for the passport of another. */
  next(moment: Moment): null {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return null;
    const { check, read } = waiting;
    // It may have been given up, or its deadline may have answered it.
    if (check.isOpen && !check.responder.isAborted) this.#deps.intake.ask(check, read, moment);
    return null;
  }

  /** Each is decided and recorded as if it came alone, in order (contract §16). */
  askBatch(gate: string, checks: readonly InProcessCheck[], options: CallOptions): Promise<Results> {
    return new Promise((resolve, reject) => {
      const requestId = newRequestId(this.#deps);
      const size = Array.isArray(checks) ? checks.length : 0;
      this.#unanswered += size;
      const pending = new Pending<Results>(resolve, reject, () => this.#noteAnswered(size));
      const refuse = (error: unknown): void => {
        if (!(error instanceof ApiError)) {
          pending.reject(error);
          return;
        }
        const failure = outcomeOf(this.#deps.answers.failure(error, requestId), { requestId });
        pending.settle(failure instanceof Error ? failure : Array.from({ length: size }, () => failure));
      };
      try {
        pending.watch(options, (): Results => Array.from({ length: size }, lateAnswer));
        parseCheckBatch({ checks });
        const head = this.#admit(gateOf(gate), { requestId }, options);
        // Not `map`, which passes over holes. Read now: what the program changes later does not count.
        const items = Array.from(checks, (check) => {
          const item = this.#read(check);
          return () => ({ head, read: item() });
        });
        new SeveralChecks(this.#deps, {
          list: () => ({
            items,
            onEnd: (replies) => pending.settle(replies.map((reply) => outcomeOf(reply, head))),
          }),
          requestId,
          traceparent: head.traceparent,
          responder: pending,
          onRefused: refuse,
        }).begin();
      } catch (error) {
        refuse(error);
      }
    });
  }

  /**
   * What comes from now on is UNAVAILABLE. Resolves when all that came before is answered, which the deadline
   * of each (`limits.decisionDeadlineMs`) sees to.
   */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await new Promise<void>((resolve) => {
      this.#whenIdle = resolve;
      this.#noteAnswered(0);
    });
  }

  #noteAnswered(count: number): void {
    this.#unanswered -= count;
    if (this.#unanswered === 0) this.#whenIdle();
  }

  /** The program around it is trusted, as a peer without a key is (contract §15). */
  #admit(
    gateId: string | null,
    asked: Pick<CheckHead, 'requestId'>,
    trace: Pick<CallOptions, keyof TraceHeaders>,
  ): CheckHead {
    if (this.#isStopped) throw new ApiError('service_unavailable', { message: 'It was stopped.' });
    const caller = this.#deps.intake.admitPeer(gateId);
    if (this.#unanswered > inProcessLimits.unansweredMax) throw new ApiError('overloaded');
    return new PeerHead(caller, gateId, asked, trace);
  }

  /** What is wrong with one check of a batch is answered in its place. */
  #read(check: InProcessCheck): () => ReadCheck {
    try {
      const read = readGivenCheck(check, this.#deps.writer);
      return () => read;
    } catch (error) {
      // What the program itself has thrown, in a getter, ends the call as it does for a single check.
      if (!(error instanceof ApiError)) throw error;
      return () => {
        throw error;
      };
    }
  }
}

/** No decision shows the id of its request, so it is made for errors alone. */
class PeerHead implements CheckHead {
  readonly caller: CheckHead['caller'];
  readonly gateId: string | null;
  readonly authorization = null;
  readonly traceparent: string;
  readonly tracestate: string;
  readonly #asked: Pick<CheckHead, 'requestId'>;

  constructor(
    caller: CheckHead['caller'],
    gateId: string | null,
    asked: Pick<CheckHead, 'requestId'>,
    { traceparent, tracestate }: Pick<CallOptions, keyof TraceHeaders>,
  ) {
    this.caller = caller;
    this.gateId = gateId;
    this.traceparent = typeof traceparent === 'string' ? traceparent : '';
    this.tracestate = typeof tracestate === 'string' ? tracestate : '';
    this.#asked = asked;
  }

  get requestId(): RequestId {
    return this.#asked.requestId;
  }
}

class PendingCheck extends Pending<Decision> implements CheckResponder {
  readonly #deps: Pick<InProcessDeps, 'intake' | 'random'>;
  #requestId: RequestId | null = null;

  constructor(
    deps: Pick<InProcessDeps, 'intake' | 'random'>,
    resolve: (decision: Decision) => void,
    reject: (reason: unknown) => void,
    onSettled: () => void,
  ) {
    super(resolve, reject, onSettled);
    this.#deps = deps;
  }

  get requestId(): RequestId {
    this.#requestId ??= newRequestId(this.#deps);
    return this.#requestId;
  }

  reply(reply: CheckReply): void {
    this.settle(outcomeOf(reply, this));
  }
}

const newRequestId = ({ intake, random }: Pick<InProcessDeps, 'intake' | 'random'>): RequestId =>
  random.newId('req', intake.moment().nowMs);

const lateAnswer = (): Decision => unavailable('timeout', details.timeout);

/**
 * A program without types may leave the gate out, or misspell its name. It must not become a check without
 * a gate, and so without limits.
 */
function gateOf(gate: unknown): string {
  if (typeof gate === 'string') return gate;
  throw new ApiError('gate_not_found', {
    ...{ param: 'gate', message: 'gate must be the id of a gate. Only enforce may ask without one.' },
  });
}

function gateNamedIn(check: object, { call }: ReadCheck): string | null {
  if ('gate' in check && check.gate !== undefined)
    throw invalidRequest('gate', 'enforce takes the gate from request.gate_id; check takes it as gate.');
  return parseGateChoice(call.request);
}

/** A request that is JSON already is copied and written in one walk. The rest is the slow path. */
function readGivenCheck(check: InProcessCheck, writer: RequestWriter): ReadCheck {
  if (typeof check !== 'object' || check === null)
    throw invalidRequest('check', 'A check must be an object.');
  const { passport, request: given, idempotencyKey } = check;
  const isUsual = idempotencyKey === undefined && typeof passport === 'string' && passport.isWellFormed();
  if (isUsual && typeof given === 'object' && given !== null) {
    const written = writer.writeCopy(given, { depth: 1 });
    if (written !== null) return { call: { passport, request: written.copy }, canonical: written.text };
  }
  const request = plainRequest(given);
  if (idempotencyKey !== undefined) {
    const { idempotency_key: named = null } = request;
    if (named !== null && named !== idempotencyKey)
      throw invalidRequest('idempotencyKey', 'idempotencyKey and request.idempotency_key are different.');
    request['idempotency_key'] = idempotencyKey;
  }
  return canonicalCheck({ passport, request }, writer, false);
}

/** A check is answered with one of the two. */
const outcomeOf = (reply: CheckReply, asked: Pick<CheckHead, 'requestId'>): Decision | AgentTrustError =>
  'answer' in reply ? (reply.answer as Decision) : refusalOf(reply.error, asked.requestId);

/** As a client of the sidecar would tell it (docs/integrations/guards.md). */
function refusalOf(error: ApiError, requestId: RequestId): Unavailable | AgentTrustError {
  const retryAfterMs = error.retryAfterS === null ? null : error.retryAfterS * secondMs;
  if (error.status >= 500)
    return unavailable(error.code as UnavailableReason, error.message, retryAfterMs, requestId);
  const text = JSON.stringify(renderError(error, requestId));
  return errorOf({ status: error.status, text, requestId, retryAfterMs });
}
