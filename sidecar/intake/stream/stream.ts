import type { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import { ApiError, invalidRequest } from '../../../shared/errors/api-error.ts';
import { assert } from '../../../shared/errors/assert.ts';
import type { ApiKeyId, RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { Mode } from '../../../shared/model/mode.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import type { Moment } from '../../../shared/runtime/clock.ts';
import { PassingMap } from '../../../shared/runtime/passing-map.ts';
import type { TraceHeaders } from '../../../shared/wire/api/trace-context.ts';
import type { Answers } from '../../decide/answers.ts';
import type { ReceivedCheck } from '../../decide/check.ts';
import type { Reply, Responder, StreamListener, StreamSocket } from '../../http/server.ts';
import type { Intake } from '../intake.ts';
import { Lane, type LaneSource } from '../lane.ts';
import { type Outcomes, outcomeOfFrame } from '../outcomes.ts';
import { asciiOf } from '../read-check.ts';
import type { TurnBudget, Turns } from '../turns.ts';
import { streamLimits } from './limits.ts';
import { type NamedFrame, nameFrame, readFrame, traceOfFrame } from './read-frame.ts';

/** Why the sidecar closes a stream: code and reason of the close frame (contract §16). */
const closings = {
  keyEnded: { code: 4401, reason: 'The API key may not ask any more.' },
  stopping: { code: 1001, reason: 'The sidecar stops. Connect again.' },
  unread: { code: 4408, reason: 'The answers are not read.' },
  flooding: { code: 4429, reason: 'Too many frames are sent before their answers.' },
} as const;

/** What the streams of a sidecar share. */
export interface StreamDeps {
  readonly intake: Pick<Intake, 'admit' | 'open' | 'prepare' | 'decide' | 'moment'>;
  readonly answers: Pick<Answers, 'failure' | 'countShed'>;
  readonly turns: Turns;
  readonly outcomes: Pick<Outcomes, 'take'>;
  readonly writer: RequestWriter;
  readonly newRequestId: (nowMs: UnixMillis) => RequestId;
  /** Bytes of the frames without an answer; written by all streams. */
  readonly unanswered: { bytes: number };
  readonly onFrame: () => void;
  readonly onClose: (stream: Stream) => void;
}

type StreamState = 'open' | 'stopping' | 'ending' | 'closed';

/** A message that was not looked at yet. */
interface UnreadFrame {
  /** As it came, or its text where all of its characters are ASCII. */
  readonly message: Buffer | string;
  readonly bytes: number;
  readonly arrivedAtMs: MonotonicMillis;
}

/**
 * One WebSocket whose frames are checks (contract §16). They are read and decided in the order in which they
 * came, in a lane (lane.ts); an answer leaves when it is there. Unread frames also wait while the client does
 * not read its answers.
 *
 *     open ──stop──> stopping ──all frames that came have their answers──> closed
 *       └───────────────┴──an answer says that its key has ended──> ending ──that answer is sent──> closed
 *     any ──its connection ends, or is cut off──> closed
 *
 * Whatever the connection is closed for, its frames are then aborted requests: nothing more is taken for
 * them.
 */
export class Stream implements StreamListener, LaneSource {
  readonly keyId: ApiKeyId;
  readonly #deps: StreamDeps;
  readonly #socket: StreamSocket;
  readonly #authorization: string;
  readonly #lane: Lane;
  readonly #unread: UnreadFrame[] = [];
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
  /** Written by `#enter` alone. */
  #state: StreamState = 'open';
  /** Whether the connection is read: see streamLimits.unansweredPause. Written by `#read` alone. */
  #reading: 'on' | 'paused' = 'on';
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
    this.#lane = new Lane(deps, this, streamLimits.framesPerStep);
  }

  get isClosed(): boolean {
    return this.#state === 'closed';
  }

  /** A sidecar that stops waits for no client to read: answers may then go up to the second bound. */
  get isHeld(): boolean {
    return this.#state !== 'stopping' && this.#socket.bufferedBytes > streamLimits.bufferedBytesPause;
  }

  get #unansweredCount(): number {
    return this.#unread.length + this.#unansweredIds.size;
  }

  onMessage(bytes: Buffer, isBinary: boolean): void {
    if (this.isClosed) return;
    this.#silentSweeps = 0;
    this.#deps.onFrame();
    const error = this.#faultOf(bytes, isBinary);
    if (error !== null) {
      if (!this.#takeExtra(extrasOfParse(bytes))) return;
      this.#reply(this.#state === 'stopping' ? idJsonOf(bytes) : 'null', this.#failure(error));
      return;
    }
    if (!this.#hasRoom(bytes)) {
      this.#refuse(bytes);
      return;
    }
    this.#unread.push({
      message: this.#keep(bytes),
      bytes: bytes.byteLength,
      arrivedAtMs: this.#deps.intake.moment().monotonicMs,
    });
    this.#count(bytes.byteLength);
    this.#lane.wake();
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
    this.#lane.wake();
  }

  onClose(): void {
    if (this.isClosed) return;
    this.#enter('closed');
    this.#count(-this.#unansweredBytes);
    this.#unread.length = 0;
    this.#lane.clear();
    this.#deps.onClose(this);
  }

  get hasNext(): boolean {
    return this.#unread.length > 0;
  }

  /** Closes it if its key has ended; pings a client that is silent, and cuts it off in the end. */
  sweep(): void {
    const { intake } = this.#deps;
    try {
      intake.admit(this.#authorization, intake.moment().nowMs);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (endsKey(error.status)) this.#close(closings.keyEnded);
    }
    // Of a client that waits nothing is read, its pongs included.
    if (this.#reading === 'paused') return;
    this.#silentSweeps += 1;
    if (this.#silentSweeps >= streamLimits.silentSweepsMax) this.#socket.terminate();
    else if (this.#silentSweeps >= streamLimits.silentSweepsMax / 2) this.#socket.ping();
  }

  /** Takes no more frames, and closes when those that came have their answers. */
  stop(): void {
    if (this.#state !== 'open') return;
    this.#enter('stopping');
    this.#holdOrRelease();
    this.#lane.wake();
    this.#closeWhereStopped();
  }

  /** By a frame, once. */
  answer(frame: Frame, reply: Reply): void {
    if (this.isClosed) return;
    this.#unansweredIds.delete(frame.id);
    this.#count(-frame.bytes);
    this.#reply(frame.idJson, reply);
    this.#lane.noteAnswer();
  }

  #faultOf({ byteLength }: Buffer, isBinary: boolean): ApiError | null {
    if (isBinary) return invalidRequest('body', 'A frame must be a text message.');
    if (byteLength > limits.bodyBytesMax) {
      return new ApiError('body_too_large', {
        message: `A frame must be at most ${limits.bodyBytesMax} bytes.`,
      });
    }
    if (this.#state === 'stopping')
      return new ApiError('service_unavailable', { message: closings.stopping.reason });
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
   * look at its first bytes: a client that sends thousands must not hold up the others.
   */
  #refuse(bytes: Buffer): void {
    const usual = usualIdJsonOf(bytes);
    if (!this.#takeExtra(usual === null ? extrasOfParse(bytes) : 1)) return;
    if (this.#refusal !== '') this.#deps.answers.countShed();
    else this.#refusal = this.#failure(new ApiError('overloaded')).body.slice(1);
    this.#answerWith(usual ?? idJsonOf(bytes), this.#refusal);
  }

  /** False: the client sends too many, and its stream is closed. */
  #takeExtra(count: number): boolean {
    if (this.isClosed) return false;
    if (this.#extras === 0) setImmediate(this.#endTurn);
    this.#extras += count;
    if (this.#extras <= streamLimits.extrasPerTurnMax) return true;
    this.#close(closings.flooding);
    return false;
  }

  /** Lets the client wait while it has too many frames without an answer, and reads the answers that come. */
  #holdOrRelease(): void {
    const isPaused = this.#reading === 'paused';
    const [countMin, bytesMin] = isPaused
      ? [streamLimits.unansweredResume + 1, streamLimits.unansweredBytesResume + 1]
      : [streamLimits.unansweredPause, streamLimits.unansweredBytesPause];
    const isFull = this.#unansweredCount >= countMin || this.#unansweredBytes >= bytesMin;
    const mustPause = isFull && !this.isHeld && this.#state !== 'stopping';
    if (mustPause !== isPaused && !this.isClosed) this.#read(mustPause ? 'paused' : 'on');
  }

  #read(reading: 'on' | 'paused'): void {
    this.#reading = reading;
    if (reading === 'paused') this.#socket.pause();
    else this.#socket.resume();
  }

  #enter(state: StreamState): void {
    assert(this.#state !== 'closed', 'a stream that is closed stays closed');
    assert(state !== 'stopping' || this.#state === 'open', 'only an open stream stops');
    this.#state = state;
  }

  /**
   * What is kept of a message, whose bytes are gone when its event is over. Text takes less than half of the
   * time of a copy whose text is made later (bench row `micro`: message kept as text).
   */
  #keep(bytes: Buffer): Buffer | string {
    const isText = this.#deps.unanswered.bytes + bytes.byteLength <= streamLimits.unreadTextBytesMax;
    const text = isText ? asciiOf(bytes) : null;
    if (text !== null) return text;
    // Not of Node's pool: it may wait for long, and would keep 8 KiB.
    const own = Buffer.allocUnsafeSlow(bytes.byteLength);
    own.set(bytes);
    return own;
  }

  next(moment: Moment, budget: TurnBudget, whenReady: () => void): ReceivedCheck | null {
    const unread = this.#unread.shift();
    if (unread === undefined) return null;
    budget.bytes -= unread.bytes;
    const requestId = this.#deps.newRequestId(moment.nowMs);
    let idJson = 'null';
    let trace = noTrace;
    try {
      const named = nameFrame(unread.message);
      if (this.#unansweredIds.has(named.id)) {
        throw invalidRequest('id', 'id is that of another frame that has no answer yet.');
      }
      idJson = named.idJson;
      // The handshake's trace is not that of its frames: one connection serves many requests.
      trace = traceOfFrame(named);
      const { intake, writer } = this.#deps;
      const authorization = this.#authorization;
      const caller = intake.admit(authorization, moment.nowMs);
      const frame = new Frame(this, named, unread.bytes);
      if (named.members['outcome'] !== undefined) {
        this.#takeOutcome(named, frame, { mode: caller.mode, requestId });
        return null;
      }
      const { gateId, read } = readFrame(named, writer);
      const { traceparent, tracestate } = trace;
      const head = { requestId, caller, authorization, gateId, traceparent, tracestate };
      const check = intake.open(head, frame, unread.arrivedAtMs, moment);
      this.#unansweredIds.set(named.id, true);
      return intake.prepare(check, read, whenReady);
    } catch (error) {
      this.#count(-unread.bytes);
      this.#reply(idJson, this.#deps.answers.failure(error, requestId, trace.traceparent));
      return null;
    }
  }

  /** An outcome in place of a check. Its frame is answered later, as that of a check. */
  #takeOutcome(
    { id, members, text }: NamedFrame,
    frame: Frame,
    by: { readonly mode: Mode; readonly requestId: RequestId },
  ): void {
    const { attestationId, body } = outcomeOfFrame(members, text);
    this.#deps.outcomes.take(attestationId, body, by, frame);
    this.#unansweredIds.set(id, true);
  }

  #failure(error: ApiError): Reply {
    const { answers, newRequestId, intake } = this.#deps;
    return answers.failure(error, newRequestId(intake.moment().nowMs));
  }

  #reply(idJson: string, reply: Reply): void {
    if (this.isClosed) return;
    if (endsKey(reply.status)) this.#enter('ending');
    this.#answerWith(idJson, reply.body.slice(1));
  }

  /** `members`: of the answer, with its last bracket. */
  #answerWith(idJson: string, members: string): void {
    if (this.#answers.length === 0) queueMicrotask(this.#flushAnswers);
    this.#answers.push(`{"id":${idJson},${members}`);
  }

  #flush(): void {
    if (this.isClosed) return;
    const answers = this.#answers;
    this.#answers = [];
    this.#socket.send(answers);
    if (this.#state === 'ending') this.#close(closings.keyEnded);
    else if (this.#socket.bufferedBytes > streamLimits.bufferedBytesMax) this.#close(closings.unread);
    else this.#closeWhereStopped();
    if (this.#reading === 'paused') this.#holdOrRelease();
  }

  #closeWhereStopped(): void {
    const isDone = this.#unansweredCount === 0 && this.#answers.length === 0;
    if (this.#state === 'stopping' && isDone) this.#close(closings.stopping);
  }

  #close({ code, reason }: (typeof closings)[keyof typeof closings]): void {
    if (this.isClosed) return;
    // Its answer to the close frame is waited for.
    if (this.#reading === 'paused') this.#read('on');
    this.#socket.close(code, reason);
    this.onClose();
  }

  #count(bytes: number): void {
    this.#unansweredBytes += bytes;
    this.#deps.unanswered.bytes += bytes;
    this.#holdOrRelease();
  }
}

const noTrace: TraceHeaders = Object.freeze({ traceparent: '', tracestate: '' });

/** A frame that was read, until it is answered. */
class Frame implements Responder {
  readonly id: string;
  readonly idJson: string;
  readonly bytes: number;
  readonly #stream: Stream;

  constructor(stream: Stream, { id, idJson }: Pick<NamedFrame, 'id' | 'idJson'>, bytes: number) {
    this.#stream = stream;
    this.id = id;
    this.idJson = idJson;
    this.bytes = bytes;
  }

  reply(reply: Reply): void {
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
