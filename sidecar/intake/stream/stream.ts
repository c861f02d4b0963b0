import type { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import { ApiError, invalidRequest } from '../../../shared/errors/api-error.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { ApiKeyId, RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { PassingMap } from '../../../shared/runtime/passing-map.ts';
import type { Enforcer } from '../../settle/asking.ts';
import type { OpenRequest } from '../../decide/check.ts';
import { asciiOf } from '../read-check.ts';
import { refuseWhereDisowned } from '../../decide/refuse-where-disowned.ts';
import { DecisionReply } from '../../decide/replies.ts';
import type { TurnBudget, Turns, Worker } from '../turns.ts';
import type { Reply, Responder, StreamListener, StreamSocket } from '../../http/server.ts';
import type { PassportVerifier, TokenOutcome } from '../../verify/verifier.ts';
import { streamLimits } from './limits.ts';
import { type FrameCheck, type NamedFrame, nameFrame, readFrame } from './read-frame.ts';

/** Why the sidecar closes a stream: code and reason of the close frame (contract §16). */
const closings = {
  keyEnded: { code: 4401, reason: 'The API key may not ask any more.' },
  stopping: { code: 1001, reason: 'The sidecar stops. Connect again.' },
  unread: { code: 4408, reason: 'The answers are not read.' },
  flooding: { code: 4429, reason: 'Too many frames are sent before their answers.' },
} as const;

/** What the streams of a sidecar share. */
export interface StreamDeps {
  readonly enforcer: Pick<Enforcer, 'admit' | 'begin' | 'proceed' | 'proceedRead' | 'failure' | 'countShed'>;
  readonly verifier: Pick<PassportVerifier, 'known' | 'verify'>;
  /** See refuseWhereDisowned. */
  readonly mustNotServe: () => string | null;
  readonly clock: Clock;
  readonly turns: Turns;
  readonly writer: RequestWriter;
  /** `nowMs`: of this moment. */
  readonly newRequestId: (nowMs?: UnixMillis) => RequestId;
  /** Bytes of the frames without an answer; written by all streams. */
  readonly unanswered: { bytes: number };
  readonly onFrame: () => void;
  readonly onClose: (stream: Stream) => void;
}

/** A message that was not looked at yet. */
interface UnreadFrame {
  /** As it came, or its text where all of its characters are ASCII. */
  readonly message: Buffer | string;
  readonly bytes: number;
  readonly arrivedAtMs: MonotonicMillis;
}

/**
 * One WebSocket whose frames are checks (contract §16). They are read and decided in the order in which they
 * came; an answer leaves when it is there.
 *
 *     unread ──its turn──> read ──passport known, and those before it decided──> under way ──> answered
 *        └──no frame, or refused──────────────────────────────────────────────────────────────────┘
 *
 * Unread frames wait for their turn (turns.ts), and while the client does not read its answers. Whatever the
 * connection is closed for, its frames are then aborted requests: nothing more is taken for them.
 */
export class Stream implements StreamListener, Worker {
  readonly keyId: ApiKeyId;
  isQueued = false;
  readonly #deps: StreamDeps;
  readonly #socket: StreamSocket;
  readonly #authorization: string;
  readonly #unread: UnreadFrame[] = [];
  /** Read, and not decided yet: the passport of the first one is being verified. */
  readonly #read: Frame[] = [];
  /** Ids of frames that were read and have no answer yet. */
  readonly #unansweredIds = new PassingMap<string, true>();
  /** Bytes of the frames without an answer, unread ones included. */
  #unansweredBytes = 0;
  /** Answers of this turn of the event loop, which leave together. */
  #answers: string[] = [];
  /**
   * Sweeps since it last sent something. Time is counted in sweeps, because a process that was stopped sweeps
   * once when it resumes, and reads what came meanwhile before it sweeps again.
   */
  #silentSweeps = 0;
  #isStopping = false;
  #isClosed = false;
  /** An answer says so; the stream is closed behind it. */
  #isKeyEnded = false;
  /** The client waits: see streamLimits.unansweredPause. */
  #isHeld = false;
  /** Since the last turn of the event loop: see streamLimits.extrasPerTurnMax. */
  #extras = 0;
  /**
   * The answer to all frames that find no room in this turn, without its first bracket; '' before the first.
   */
  #refusal = '';
  readonly #flushAnswers = (): void => this.#flush();
  readonly #endTurn = (): void => {
    this.#extras = 0;
    this.#refusal = '';
  };

  constructor(
    deps: StreamDeps,
    socket: StreamSocket,
    caller: { readonly keyId: ApiKeyId; readonly authorization: string },
  ) {
    this.#deps = deps;
    this.#socket = socket;
    this.keyId = caller.keyId;
    this.#authorization = caller.authorization;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** A sidecar that stops waits for no client to read: answers may then go up to the second bound. */
  get #isPaused(): boolean {
    return !this.#isStopping && this.#socket.bufferedBytes > streamLimits.bufferedBytesPause;
  }

  get #unansweredCount(): number {
    return this.#unread.length + this.#unansweredIds.size;
  }

  onMessage(bytes: Buffer, isBinary: boolean): void {
    if (this.#isClosed) return;
    const { enforcer, turns, clock, newRequestId, onFrame } = this.#deps;
    this.#silentSweeps = 0;
    onFrame();
    const error = this.#faultOf(bytes, isBinary);
    if (error !== null) {
      if (!this.#takeExtra(extrasOfParse(bytes))) return;
      this.#reply(this.#isStopping ? idJsonOf(bytes) : 'null', enforcer.failure(error, newRequestId()));
      return;
    }
    if (!this.#hasRoom(bytes)) {
      this.#refuse(bytes);
      return;
    }
    this.#unread.push({
      message: this.#keep(bytes),
      bytes: bytes.byteLength,
      arrivedAtMs: clock.monotonic(),
    });
    this.#count(bytes.byteLength);
    turns.wants(this);
  }

  onPing(): void {
    if (!this.#takeExtra(1)) return;
    if (this.#socket.bufferedBytes > streamLimits.bufferedBytesMax) this.#close(closings.unread);
  }

  onPong(): void {
    this.#silentSweeps = 0;
    this.#takeExtra(1);
  }

  onDrain(): void {
    this.#holdOrRelease();
    this.#deps.turns.wants(this);
  }

  onClose(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#count(-this.#unansweredBytes);
    this.#unread.length = 0;
    this.#read.length = 0;
    this.#deps.onClose(this);
  }

  step(budget: TurnBudget): boolean {
    // Looked at once: what is answered in a step leaves behind it.
    if (this.#isPaused) return false;
    const checksLeftMin = Math.max(0, budget.checks - streamLimits.framesPerStep);
    while (budget.checks > checksLeftMin && budget.bytes > 0) if (!this.#next(budget)) return false;
    return true;
  }

  /** The next frame; false: there is none that could be read or decided now. */
  #next(budget: TurnBudget): boolean {
    if (this.#isClosed) return false;
    const [next] = this.#read;
    if (next?.isVerified === true || next?.isAnswered === true) {
      this.#read.shift();
      budget.checks -= 1;
      this.#decide(next);
      return true;
    }
    const unread = this.#unread.shift();
    if (unread === undefined) return false;
    budget.checks -= 1;
    budget.bytes -= unread.bytes;
    this.#begin(unread);
    return true;
  }

  /** Closes it if its key has ended; pings a client that is silent, and cuts it off in the end. */
  sweep(): void {
    const { enforcer, newRequestId } = this.#deps;
    try {
      enforcer.admit({ authorization: this.#authorization }, null, newRequestId());
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (endsKey(error.status)) this.#close(closings.keyEnded);
    }
    // Of a client that waits nothing is read, its pongs included.
    if (this.#isHeld) return;
    this.#silentSweeps += 1;
    if (this.#silentSweeps >= streamLimits.silentSweepsMax) this.#socket.terminate();
    else if (this.#silentSweeps >= streamLimits.silentSweepsMax / 2) this.#socket.ping();
  }

  /** Takes no more frames, and closes when those that came have their answers. */
  stop(): void {
    this.#isStopping = true;
    this.#holdOrRelease();
    this.#deps.turns.wants(this);
    this.#closeWhereStopped();
  }

  /** By a frame, once. */
  answer(frame: Frame, reply: Reply): void {
    if (this.#isClosed) return;
    this.#unansweredIds.delete(frame.id);
    this.#count(-frame.bytes);
    this.#reply(frame.idJson, reply);
    // One that its deadline has answered makes way for those behind it.
    if (this.#read.length > 0) this.#deps.turns.wants(this);
  }

  #faultOf({ byteLength }: Buffer, isBinary: boolean): ApiError | null {
    if (isBinary) return invalidRequest('body', 'A frame must be a text message.');
    if (byteLength > limits.bodyBytesMax) {
      return new ApiError('body_too_large', {
        message: `A frame must be at most ${limits.bodyBytesMax} bytes.`,
      });
    }
    if (this.#isStopping) return new ApiError('service_unavailable', { message: closings.stopping.reason });
    return null;
  }

  #hasRoom({ byteLength }: Buffer): boolean {
    return (
      this.#unansweredCount < streamLimits.unansweredMax &&
      this.#unansweredBytes + byteLength <= streamLimits.unansweredBytesMax &&
      this.#deps.unanswered.bytes + byteLength <= streamLimits.unansweredBytesOfAllMax
    );
  }

  /**
   * A frame that finds no room is answered at once, because nothing of it can be kept, and at the price of a
   * look at its first bytes: whoever sends them in thousands must not hold up everybody else.
   */
  #refuse(bytes: Buffer): void {
    const usual = usualIdJsonOf(bytes);
    if (!this.#takeExtra(usual === null ? extrasOfParse(bytes) : 1)) return;
    const { enforcer, newRequestId } = this.#deps;
    if (this.#refusal !== '') enforcer.countShed();
    else {
      this.#refusal = enforcer.failure(new ApiError('overloaded'), newRequestId()).body.slice(1);
    }
    this.#answerWith(usual ?? idJsonOf(bytes), this.#refusal);
  }

  /** False: the client sends too many, and its stream is closed. */
  #takeExtra(count: number): boolean {
    if (this.#isClosed) return false;
    if (this.#extras === 0) setImmediate(this.#endTurn);
    this.#extras += count;
    if (this.#extras <= streamLimits.extrasPerTurnMax) return true;
    this.#close(closings.flooding);
    return false;
  }

  /** Lets the client wait while it has too many frames without an answer, and reads the answers that come. */
  #holdOrRelease(): void {
    const [countMin, bytesMin] = this.#isHeld
      ? [streamLimits.unansweredResume + 1, streamLimits.unansweredBytesResume + 1]
      : [streamLimits.unansweredPause, streamLimits.unansweredBytesPause];
    const isFull = this.#unansweredCount >= countMin || this.#unansweredBytes >= bytesMin;
    const mustHold = isFull && !this.#isPaused && !this.#isStopping;
    if (mustHold === this.#isHeld || this.#isClosed) return;
    this.#isHeld = mustHold;
    if (mustHold) this.#socket.pause();
    else this.#socket.resume();
  }

  /**
   * What is kept of a message, whose bytes are gone when its event is over. Text takes less than half of the
   * time of a copy whose text is made later (bench row `micro`).
   */
  #keep(bytes: Buffer): Buffer | string {
    const isText = this.#deps.unanswered.bytes + bytes.byteLength <= streamLimits.unreadTextBytesMax;
    return (isText ? asciiOf(bytes) : null) ?? Buffer.from(bytes);
  }

  /** Its turn has come: it is decided, or waits for its passport, or is refused. */
  #begin({ message, bytes, arrivedAtMs }: UnreadFrame): void {
    const { enforcer, clock, mustNotServe, newRequestId, writer } = this.#deps;
    // What is decided before this returns is decided at this moment.
    const momentMs = clock.monotonic();
    const nowMs = clock.now(momentMs);
    const requestId = newRequestId(nowMs);
    let idJson = 'null';
    try {
      const named = nameFrame(message);
      if (this.#unansweredIds.has(named.id)) {
        throw invalidRequest('id', 'id is that of another frame that has no answer yet.');
      }
      idJson = named.idJson;
      // Its client waits no longer, like one whose connection was closed before its request was read.
      if (momentMs - arrivedAtMs >= limits.decisionDeadlineMs) throw new ApiError('overloaded');
      refuseWhereDisowned(mustNotServe());
      const asked = readFrame(named, writer);
      const head = enforcer.admit({ authorization: this.#authorization }, asked.gateId, requestId, nowMs);
      const frame = new Frame(this, asked, named, bytes);
      this.#unansweredIds.set(named.id, true);
      frame.open = enforcer.begin(head, frame, arrivedAtMs);
      this.#verify(frame);
      if (frame.isVerified && this.#read.length === 0) this.#decide(frame, momentMs);
      else this.#read.push(frame);
    } catch (error) {
      this.#count(-bytes);
      this.#reply(idJson, enforcer.failure(error, requestId));
    }
  }

  /** Passports that are not known are verified together, while the frames before them are decided. */
  #verify(frame: Frame): void {
    const { verifier, turns } = this.#deps;
    const { passport } = frame.body;
    const known = typeof passport === 'string' ? verifier.known(passport) : null;
    if (known !== null) frame.outcome = { kind: 'verified', passport: known };
    frame.isVerified = typeof passport !== 'string' || known !== null;
    if (frame.isVerified) return;
    verifier.verify(passport as string, (outcome) => {
      frame.outcome = outcome;
      frame.isVerified = true;
      turns.wants(this);
    });
  }

  /** `nowMs`: where the clock was read in this very call of the loop. */
  #decide(frame: Frame, nowMs?: MonotonicMillis): void {
    // Its deadline may have answered it meanwhile.
    if (frame.isAnswered) return;
    const { enforcer } = this.#deps;
    const open = must(frame.open, 'a frame that was read has a request');
    if (frame.check === null) enforcer.proceed(open, frame.body, frame.outcome);
    else enforcer.proceedRead(open, frame.check, frame.outcome, nowMs);
  }

  #reply(idJson: string, reply: Reply): void {
    if (this.#isClosed) return;
    if (endsKey(reply.status)) this.#isKeyEnded = true;
    // To cut a text that was just joined, V8 writes it out first: a second time for each decision.
    this.#answerWith(idJson, reply instanceof DecisionReply ? reply.members : reply.body.slice(1));
  }

  /** `members`: of the answer, with its last bracket. */
  #answerWith(idJson: string, members: string): void {
    if (this.#answers.length === 0) queueMicrotask(this.#flushAnswers);
    this.#answers.push(`{"id":${idJson},${members}`);
  }

  #flush(): void {
    if (this.#isClosed) return;
    const answers = this.#answers;
    this.#answers = [];
    this.#socket.send(answers);
    if (this.#isKeyEnded) this.#close(closings.keyEnded);
    else if (this.#socket.bufferedBytes > streamLimits.bufferedBytesMax) this.#close(closings.unread);
    else this.#closeWhereStopped();
    if (this.#isHeld) this.#holdOrRelease();
  }

  #closeWhereStopped(): void {
    const isDone = this.#unansweredCount === 0 && this.#answers.length === 0;
    if (this.#isStopping && isDone) this.#close(closings.stopping);
  }

  #close({ code, reason }: (typeof closings)[keyof typeof closings]): void {
    if (this.#isClosed) return;
    // Its answer to the close frame is waited for.
    if (this.#isHeld) this.#socket.resume();
    this.#socket.close(code, reason);
    this.onClose();
  }

  #count(bytes: number): void {
    this.#unansweredBytes += bytes;
    this.#deps.unanswered.bytes += bytes;
    this.#holdOrRelease();
  }
}

/** A frame that was read, until it is answered. */
class Frame implements Responder {
  readonly id: string;
  readonly idJson: string;
  readonly bytes: number;
  /** See FrameCheck. */
  readonly check: FrameCheck['check'];
  readonly body: FrameCheck['body'];
  /** Set once, when its deadline begins to run. */
  open: OpenRequest | null = null;
  /** It need not wait for its passport any more, or has none that could be verified. */
  isVerified = false;
  /** Of its passport; null until it is known or verified, and where there is none. */
  outcome: TokenOutcome | null = null;
  isAnswered = false;
  readonly #stream: Stream;

  constructor(
    stream: Stream,
    { check, body }: Pick<FrameCheck, 'check' | 'body'>,
    { id, idJson }: Pick<NamedFrame, 'id' | 'idJson'>,
    bytes: number,
  ) {
    this.#stream = stream;
    this.id = id;
    this.idJson = idJson;
    this.bytes = bytes;
    this.check = check;
    this.body = body;
  }

  reply(reply: Reply): void {
    this.isAnswered = true;
    this.#stream.answer(this, reply);
  }

  get isAborted(): boolean {
    return this.#stream.isClosed;
  }
}

/** 401: it is not known any more; 403: its account or its scopes have changed. */
const endsKey = (status: number): boolean => status === 401 || status === 403;

/** What a frame counts whose id has to be looked for in all of it. */
const extrasOfParse = ({ byteLength }: Buffer): number =>
  streamLimits.extrasPerParse + Math.floor(byteLength / streamLimits.parsedBytesPerExtra);

const usualId = /^\{"id":("[ !#-[\]-~]{1,64}")/;
const usualIdCharsMax = '{"id":""'.length + streamLimits.frameIdCharsMax;

/** Of a frame that begins with an id which needs no decoding; null: of any other. */
const usualIdJsonOf = (bytes: Buffer): string | null =>
  usualId.exec(bytes.toString('latin1', 0, usualIdCharsMax))?.[1] ?? null;

function idJsonOf(bytes: Buffer): string {
  try {
    return nameFrame(bytes).idJson;
  } catch {
    // It has none: what is wrong with it does not matter where it is refused anyway.
    return 'null';
  }
}
