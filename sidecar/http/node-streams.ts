import { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Logger } from '../../shared/runtime/logger.ts';
import { httpLimits } from './limits.ts';
import type { StreamListener, StreamSocket, Upgrade } from './server.ts';

/**
 * The WebSockets of the `node:http` adapter. Without compression: it would cost each connection up to 300 KB
 * and each message a pass over its bytes, and it lets the length of an answer hint at secrets beside it.
 */
export function nodeStreams(logger: Logger): {
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, to: Upgrade): void;
} {
  // A constant, because its types do not have `closeTimeout` yet.
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: httpLimits.streamMessageBytesMax,
    closeTimeout: httpLimits.streamCloseMsMax,
  };
  const server = new WebSocketServer(options);
  let further: NonNullable<Upgrade['headers']> = [];
  server.on('headers', (lines) => lines.push(...further.map(([name, value]) => `${name}: ${value}`)));
  return {
    upgrade: (req, socket, head, { open, headers = [] }) => {
      // The answer is written before `handleUpgrade` returns.
      further = headers;
      server.handleUpgrade(req, socket, head, (ws) => {
        try {
          listen(ws, { socket, listener: open(new NodeStream(ws, socket)), logger });
        } catch (error) {
          logger.error({ err: error }, 'a stream could not be opened');
          ws.terminate();
        }
      });
    },
  };
}

function listen(
  ws: WebSocket,
  options: { readonly socket: Duplex; readonly listener: StreamListener; readonly logger: Logger },
): void {
  const { socket, listener, logger } = options;
  const call = (callback: () => void): void => {
    try {
      callback();
    } catch (error) {
      logger.error({ err: error }, 'a callback of a stream threw');
    }
  };
  // Without `binaryType` a message comes as one Buffer.
  ws.on('message', (bytes, isBinary) => call(() => listener.onMessage(bytes as Buffer, isBinary)));
  ws.on('ping', () => call(() => listener.onPing()));
  ws.on('pong', () => call(() => listener.onPong()));
  ws.on('close', () => call(() => listener.onClose()));
  // What the client did wrong. The library closes the connection, and `close` follows.
  ws.on('error', () => undefined);
  socket.on('drain', () => call(() => listener.onDrain()));
}

class NodeStream implements StreamSocket {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;

  constructor(ws: WebSocket, socket: Duplex) {
    this.#ws = ws;
    this.#socket = socket;
  }

  send(messages: readonly string[]): void {
    if (!this.#isOpen) return;
    this.#socket.cork();
    for (const message of messages) this.#ws.send(message);
    this.#socket.uncork();
  }

  get bufferedBytes(): number {
    return this.#ws.bufferedAmount;
  }

  pause(): void {
    this.#ws.pause();
  }

  resume(): void {
    this.#ws.resume();
  }

  ping(): void {
    if (this.#isOpen) this.#ws.ping();
  }

  close(code: number, reason: string): void {
    this.#ws.close(code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  get #isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }
}

/**
 * The requests of a server, of which only handshakes at `streamPath` count as upgrades. With a listener for
 * `upgrade`, node:http on Node 20 would stop serving every request that offers to upgrade to anything, and
 * Java's HTTP client, for one, offers `h2c` with every first request. Later versions ask
 * `shouldUpgradeCallback`; this property is looked at by all of them.
 */
export function upgradingAt(streamPath: string | undefined): typeof IncomingMessage {
  return class extends IncomingMessage {
    declare offersUpgrade: boolean;

    get upgrade(): boolean {
      return this.offersUpgrade && (this.method === 'CONNECT' || this.#isHandshake);
    }

    /** Called by node:http: by the base class before this one's fields exist, hence `declare`. */
    set upgrade(value: boolean) {
      this.offersUpgrade = value;
    }

    get #isHandshake(): boolean {
      const path = this.url?.split('?', 1)[0];
      return (
        path === streamPath &&
        this.method === 'GET' &&
        this.httpVersion === '1.1' &&
        /^websocket$/i.test(this.headers.upgrade ?? '')
      );
    }
  };
}
