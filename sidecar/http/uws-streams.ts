import type {
  HttpRequest,
  HttpResponse,
  us_socket_context_t,
  WebSocket,
  WebSocketBehavior,
} from 'uWebSockets.js';
import type { Logger } from '../../shared/runtime/logger.ts';
import { httpLimits } from './limits.ts';
import type { StreamListener, StreamSocket, Upgrade } from './server.ts';

/** What the addon keeps with a connection: it copies the members to its own object. */
interface Kept {
  readonly stream: UwsStream;
}

/**
 * The addon's own watch over silent connections, in seconds, which also cuts off clients that do not answer a
 * close frame. The listener of a stream has a watch of its own, which is shorter.
 */
const idleTimeoutS = 120;

/** The WebSockets of the uWebSockets.js adapter. Without compression, as those of `node:http`. */
export function uwsStreams(logger: Logger): {
  readonly behavior: WebSocketBehavior<Kept>;
  upgrade(res: HttpResponse, req: HttpRequest, context: us_socket_context_t, to: Upgrade): void;
} {
  /** An exception inside a callback ends the process. */
  const call = (callback: () => void): void => {
    try {
      callback();
    } catch (error) {
      logger.error({ err: error }, 'a callback of a stream threw');
    }
  };
  const listenerOf = (ws: WebSocket<Kept>) => ws.getUserData().stream.listener;
  return {
    behavior: {
      // Its number for none, which its package declares as a type only.
      compression: 0,
      maxPayloadLength: httpLimits.streamMessageBytesMax,
      // The listener of a stream bounds what is buffered, and closes with a code that says why. Here a
      // message beyond the bound would be dropped.
      maxBackpressure: 0,
      idleTimeout: idleTimeoutS,
      sendPingsAutomatically: false,
      open: (ws) => call(() => ws.getUserData().stream.open(ws)),
      message: (ws, message, isBinary) =>
        call(() => listenerOf(ws)?.onMessage(Buffer.from(message), isBinary)),
      ping: (ws) => call(() => listenerOf(ws)?.onPing()),
      pong: (ws) => call(() => listenerOf(ws)?.onPong()),
      drain: (ws) => call(() => listenerOf(ws)?.onDrain()),
      close: (ws) => call(() => ws.getUserData().stream.closed()),
    },
    upgrade: (res, req, context, to) => {
      const kept: Kept = { stream: new UwsStream(to) };
      res.writeStatus('101 Switching Protocols');
      for (const [name, value] of to.headers ?? []) res.writeHeader(name, value);
      // No subprotocol and no extension: none is offered back.
      res.upgrade(kept, req.getHeader('sec-websocket-key'), '', '', context);
    },
  };
}

class UwsStream implements StreamSocket {
  listener: StreamListener | null = null;
  readonly #to: Upgrade;
  /** Null before it is open, and once it is closed: every method of the addon's object throws then. */
  #ws: WebSocket<Kept> | null = null;

  constructor(to: Upgrade) {
    this.#to = to;
  }

  open(ws: WebSocket<Kept>): void {
    this.#ws = ws;
    try {
      this.listener = this.#to.open(this);
    } catch (error) {
      this.terminate();
      throw error;
    }
  }

  closed(): void {
    this.#ws = null;
    this.listener?.onClose();
  }

  send(messages: readonly string[]): void {
    const ws = this.#ws;
    ws?.cork(() => {
      for (const message of messages) ws.send(message, false, false);
    });
  }

  get bufferedBytes(): number {
    return this.#ws?.getBufferedAmount() ?? 0;
  }

  pause(): void {
    // Its WebSockets cannot.
  }

  resume(): void {
    // Nothing is paused.
  }

  ping(): void {
    this.#ws?.ping();
  }

  close(code: number, reason: string): void {
    this.#ws?.end(code, reason);
  }

  terminate(): void {
    this.#ws?.close();
  }
}
