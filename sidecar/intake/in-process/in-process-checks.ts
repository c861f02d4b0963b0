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
import { type MonotonicMillis, secondMs } from '../../../shared/model/time.ts';
import { parseGateChoice } from '../../../shared/wire/check.ts';
import { parseCheckBatch } from '../../../shared/wire/check-batch.ts';
import { type CheckItem, ChecksInOrder } from '../several-checks.ts';
import type { OpenRequest, OpenRequestHead } from '../../decide/check.ts';
import { type CanonicalCheck, canonicalCheck } from '../read-check.ts';
import { refuseWhereDisowned } from '../../decide/refuse-where-disowned.ts';
import type { CheckReply, CheckResponder } from '../../decide/replies.ts';
import type { Core } from '../../startup/core.ts';
import { embeddedLimits } from '../../embedded/limits.ts';
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

/** A check that is decided in a later turn of the event loop. */
interface Waiting {
  readonly open: OpenRequest;
  readonly check: CanonicalCheck;
  readonly pending: PendingCheck;
}

/**
 * The checks of the program around it, decided as a sidecar decides requests. One is decided before the call
 * returns, and answered when its record is written, at the end of this turn of the event loop. Beyond
 * `embeddedLimits.decisionsPerTurnMax` they wait for the next turns, in their order.
 */
export class InProcessChecks {
  readonly #core: Core;
  #waiting: Waiting[] = [];
  /** In this turn of the event loop. */
  #decided = 0;
  /** Checks without an answer, those of batches included. */
  #unanswered = 0;
  #isStopped = false;
  #whenIdle: () => void = () => undefined;
  readonly #onAnswered = (): void => this.#noteAnswered(1);
  readonly #onTurn = (): void => this.#beginTurn();

  constructor(core: Core) {
    this.#core = core;
  }

  ask(gate: string | typeof namedInRequest, check: InProcessCheck, options: CallOptions): Promise<Decision> {
    return new Promise((resolve, reject) => {
      // Read once: all until the call returns is one moment.
      const nowMs = this.#core.clock.monotonic();
      this.#unanswered++;
      const pending = new PendingCheck(this.#core, resolve, reject, this.#onAnswered);
      try {
        pending.watch(options, lateAnswer);
        const read = readCheck(check, this.#core.writer);
        const gateId = gate === namedInRequest ? gateNamedIn(check, read) : gateOf(gate);
        const head = this.#admit(gateId, pending);
        this.#decide(head, read, pending, nowMs);
      } catch (error) {
        if (!(error instanceof ApiError)) return pending.reject(error);
        pending.settle(refusalOf(error, pending.requestId));
      }
    });
  }

  /** Each is decided and recorded as if it came alone, in order (contract §16). */
  askBatch(gate: string, checks: readonly InProcessCheck[], options: CallOptions): Promise<Results> {
    return new Promise((resolve, reject) => {
      const requestId = newRequestId(this.#core);
      const size = Array.isArray(checks) ? checks.length : 0;
      this.#unanswered += size;
      const pending = new Pending<Results>(resolve, reject, () => this.#noteAnswered(size));
      const refuse = (error: unknown): void => {
        if (!(error instanceof ApiError)) {
          pending.reject(error);
          return;
        }
        const failure = refusalOf(error, requestId);
        pending.settle(failure instanceof Error ? failure : Array.from({ length: size }, () => failure));
      };
      try {
        pending.watch(options, (): Results => Array.from({ length: size }, lateAnswer));
        parseCheckBatch({ checks });
        const head = this.#admit(gateOf(gate), { requestId });
        if (this.#unanswered > embeddedLimits.checksWaitingMax) throw new ApiError('overloaded');
        // Not `map`, which passes over holes.
        const items = Array.from(checks, (check) => this.#itemOf(check, head));
        new ChecksInOrder(this.#core, {
          read: () => ({
            items,
            onEnd: (replies) => pending.settle(replies.map((reply) => outcomeOf(reply, head))),
          }),
          requestId,
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
  #admit(gateId: string | null, asked: Pick<OpenRequestHead, 'requestId'>): OpenRequestHead {
    const { following, enforcer } = this.#core;
    if (this.#isStopped) throw new ApiError('service_unavailable', { message: 'It was stopped.' });
    refuseWhereDisowned(following.mustNotServe);
    return new PeerHead(enforcer.admitPeer(gateId), gateId, asked);
  }

  #decide(head: OpenRequestHead, check: CanonicalCheck, pending: PendingCheck, nowMs: MonotonicMillis): void {
    const { enforcer } = this.#core;
    const mayDecide = this.#decided < embeddedLimits.decisionsPerTurnMax;
    if (!mayDecide && this.#waiting.length >= embeddedLimits.checksWaitingMax)
      throw new ApiError('overloaded');
    const open = enforcer.begin(head, pending, nowMs);
    if (mayDecide) {
      this.#countDecision();
      enforcer.proceedRead(open, check, null, nowMs);
    } else this.#waiting.push({ open, check, pending });
  }

  #countDecision(): void {
    if (this.#decided === 0) setImmediate(this.#onTurn);
    this.#decided++;
  }

  #itemOf(check: InProcessCheck, head: OpenRequestHead): CheckItem {
    try {
      return { kind: 'check', head, check: readCheck(check, this.#core.writer) };
    } catch (error) {
      // What the program itself has thrown, in a getter, ends the call as it does for a single check.
      if (!(error instanceof ApiError)) throw error;
      return { kind: 'refused', error };
    }
  }

  /** Those that wait come first: while any do, the turn before has decided as many as it may. */
  #beginTurn(): void {
    this.#decided = 0;
    if (this.#waiting.length === 0) return;
    for (const { open, check, pending } of this.#waiting.splice(0, embeddedLimits.decisionsPerTurnMax)) {
      this.#countDecision();
      // It may have been given up, or its deadline may have answered it.
      if (!pending.isAborted) this.#core.enforcer.proceedRead(open, check);
    }
  }
}

/** No decision shows the id of its request, so it is made for errors alone. */
class PeerHead implements OpenRequestHead {
  readonly caller: OpenRequestHead['caller'];
  readonly gateId: string | null;
  readonly authorization = null;
  readonly #asked: Pick<OpenRequestHead, 'requestId'>;

  constructor(
    caller: OpenRequestHead['caller'],
    gateId: string | null,
    asked: Pick<OpenRequestHead, 'requestId'>,
  ) {
    this.caller = caller;
    this.gateId = gateId;
    this.#asked = asked;
  }

  get requestId(): RequestId {
    return this.#asked.requestId;
  }
}

class PendingCheck extends Pending<Decision> implements CheckResponder {
  readonly #core: Core;
  #requestId: RequestId | null = null;

  constructor(
    core: Core,
    resolve: (decision: Decision) => void,
    reject: (reason: unknown) => void,
    onSettled: () => void,
  ) {
    super(resolve, reject, onSettled);
    this.#core = core;
  }

  get requestId(): RequestId {
    this.#requestId ??= newRequestId(this.#core);
    return this.#requestId;
  }

  reply(reply: CheckReply): void {
    this.settle(outcomeOf(reply, this));
  }
}

const newRequestId = ({ clock, random }: Core): RequestId => random.newId('req', clock.now());

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

function gateNamedIn(check: object, { call }: CanonicalCheck): string | null {
  if ('gate' in check && check.gate !== undefined)
    throw invalidRequest('gate', 'enforce takes the gate from request.gate_id; check takes it as gate.');
  return parseGateChoice(call.request);
}

/** A request that is JSON already is copied and written in one walk; the rest is the plain version of it. */
function readCheck(check: InProcessCheck, writer: RequestWriter): CanonicalCheck {
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

/** The enforcer answers with one of the two. */
const outcomeOf = (
  reply: CheckReply,
  asked: Pick<OpenRequestHead, 'requestId'>,
): Decision | AgentTrustError =>
  'answer' in reply ? (reply.answer as Decision) : refusalOf(reply.error, asked.requestId);

/** As a client of the sidecar would tell it (docs/integrations/guards.md). */
function refusalOf(error: ApiError, requestId: RequestId): Unavailable | AgentTrustError {
  const retryAfterMs = error.retryAfterS === null ? null : error.retryAfterS * secondMs;
  if (error.status >= 500)
    return unavailable(error.code as UnavailableReason, error.message, retryAfterMs, requestId);
  const text = JSON.stringify(renderError(error, requestId));
  return errorOf({ status: error.status, text, requestId, retryAfterMs });
}
