import { ApiError } from '../../../shared/errors/api-error.ts';
import type { ApiKeyId, RequestId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import type { Random } from '../../../shared/runtime/random.ts';
import { errorReply } from '../../decide/replies.ts';
import type { Reply, RequestHead, Upgrade } from '../../http/server.ts';
import { assertHandshake } from './handshake.ts';
import { streamLimits } from './limits.ts';
import { frameMembers } from './read-frame.ts';
import { Stream, type StreamDeps } from './stream.ts';

export interface StreamsDeps
  extends Pick<StreamDeps, 'intake' | 'answers' | 'outcomes' | 'turns' | 'writer'> {
  readonly random: Random;
}

/** The streams of one sidecar (contract §16). */
export class Streams {
  /** Messages that have come, whatever became of them. */
  frames = 0;
  readonly #deps: StreamDeps;
  readonly #streams = new Set<Stream>();
  readonly #sweep: NodeJS.Timeout;
  #isClosing = false;
  #whenEmpty: (() => void) | null = null;

  constructor({ random, ...deps }: StreamsDeps) {
    this.#deps = {
      ...deps,
      unanswered: { bytes: 0 },
      newRequestId: (nowMs) => random.newId('req', nowMs),
      onFrame: () => {
        this.frames++;
      },
      onClose: (stream) => this.#forget(stream),
    };
    this.#sweep = setInterval(() => {
      for (const stream of this.#streams) stream.sweep();
    }, streamLimits.sweepMs);
    this.#sweep.unref();
  }

  /** Streams that are open. */
  get open(): number {
    return this.#streams.size;
  }

  /**
   * The answer to `GET /v1/stream`. Its caller is known by a header alone, which no browser lets a page set
   * on a WebSocket: a foreign page can open no stream in the name of its visitor, whatever `Origin` it has.
   * Throws ApiError for whom it does not serve.
   */
  upgrade(
    { authorization, headers }: RequestHead,
    { requestId, nowMs }: { readonly requestId: RequestId; readonly nowMs: UnixMillis },
  ): Upgrade | Reply {
    const { keyId } = this.#deps.intake.admit(authorization, nowMs);
    try {
      assertHandshake(headers);
    } catch (error) {
      return withVersion(error, requestId);
    }
    if (this.#isClosing) throw new ApiError('service_unavailable', { message: 'This sidecar stops.' });
    if (this.open >= streamLimits.streamsMax || this.#openFor(keyId) >= streamLimits.streamsPerKeyMax) {
      throw new ApiError('overloaded', {
        message: `At most ${streamLimits.streamsPerKeyMax} streams of one key, and ${streamLimits.streamsMax} in all, may be open at a sidecar.`,
      });
    }
    return {
      headers: [['agent-trust-frame-members', frameMembers.join(', ')]],
      open: (socket) => {
        const stream = new Stream(this.#deps, socket, { keyId, authorization });
        this.#streams.add(stream);
        return stream;
      },
    };
  }

  /**
   * Each stream is closed with 1001 when its frames are answered, so that its client looks for another
   * sidecar. New ones are still taken.
   */
  startDraining(): void {
    for (const stream of this.#streams) stream.stop();
  }

  /**
   * The same, and no new ones. Resolves when all are closed, which the deadline of decisions sees to. Never
   * rejects.
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.startDraining();
    if (this.open > 0) {
      await new Promise<void>((resolve) => {
        this.#whenEmpty = resolve;
      });
    }
    clearInterval(this.#sweep);
  }

  #forget(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.open === 0) this.#whenEmpty?.();
  }

  #openFor(keyId: ApiKeyId): number {
    let count = 0;
    for (const stream of this.#streams) if (stream.keyId === keyId) count++;
    return count;
  }
}

/** RFC 6455 §4.4: the refusal of a handshake names the version that is spoken. */
function withVersion(error: unknown, requestId: RequestId): Reply {
  if (!(error instanceof ApiError)) throw error;
  const reply = errorReply(error, requestId);
  return { ...reply, headers: [...(reply.headers ?? []), ['sec-websocket-version', '13']] };
}
