/**
 * Room `sidecar/http`: HTTP: the port is here. `uws-server.ts` and `node-server.ts` are the only files that
 * listen, `uws-streams.ts` and `node-streams.ts` their WebSockets, `exchange.ts` a request to its answer;
 * `routes.ts` knows the addresses.
 */

import type { RequestId } from '../../shared/model/ids.ts';
import type { Logger } from '../../shared/runtime/logger.ts';

/** What is known of a request before its body. Every text is as the client sent it: undecoded, unchecked. */
export interface RequestHead {
  /** As sent: methods are case-sensitive (RFC 9110 §9.1), so `get` is no GET. */
  readonly method: string;
  /** From the first `/` to the query, percent-encoding left as it is, valid or not. */
  readonly path: string;
  /** After the `?`, or '' where there is none. */
  readonly query: string;
  /**
   * '' if absent. A header that came more than once is joined with `, ` (RFC 9110 §5.3), so that no half of
   * it passes for the whole.
   */
  readonly authorization: string;
  /**
   * The values of `ListenOptions.headerNamesOf` its path, in that order; '' if absent, joined like
   * `authorization`.
   */
  readonly headers: readonly string[];
  /** One of `singleHeaders` that came more than once; null: none did. */
  readonly repeated: string | null;
  /** `Content-Encoding`, joined like `authorization`; '' if absent. */
  readonly contentEncoding: string;
  /** Unread, joined like `authorization`, so that two of them are no valid one; '' if absent. */
  readonly traceparent: string;
  /** Unread, joined like `authorization`: several are one list; '' if absent. */
  readonly tracestate: string;
  /**
   * Of the peer, `127.0.0.1` or `::1`; an IPv4 peer of an IPv6 socket is written as IPv4. Looked up when it
   * is read, because most requests never ask; '' after the request is answered or its client has gone.
   */
  readonly remoteAddress: string;
}

/** An answer. Nothing in `headers` and `contentType` may come from a caller: only printable ASCII passes. */
export interface Reply {
  /** 200 to 599, except 204 and 304, which have rules of their own for a body and are not used here. */
  readonly status: number;
  readonly body: string;
  /** Default `application/json; charset=utf-8`; not sent with an empty body. */
  readonly contentType?: string;
  /**
   * Sent as `x-request-id` (contract §12). Nearly every answer has this header and no other: as a member it
   * costs no list, and as an id that was made here its characters need no check.
   */
  readonly requestId?: RequestId;
  /** Names in lower case. Not for `content-length`, `connection` and `date`, which belong to the adapter. */
  readonly headers?: readonly (readonly [string, string])[];
}

export interface Responder {
  /**
   * At most once, at any later time, from any callback; the second call throws InvariantError. Says nothing,
   * silently, when the client has gone.
   */
  reply(reply: Reply): void;
  /** The client has disconnected, or the server was closed: no answer can be delivered. */
  readonly isAborted: boolean;
}

/**
 * Gets the whole body. The bytes are the server's and may be gone when it returns: whatever shall last is
 * decoded or copied before. (A copy of each body cost 6 % of the processor time of the adapter with a handler
 * that only parses, on Node 20.) A throw before it has replied is logged and answered `internal_error`.
 */
export type BodyHandler = (body: Buffer, responder: Responder) => void;

/** A body that may be larger than limits.bodyBytesMax, up to `bytesMax` <= limits.bodyDiscardBytesMax. */
export interface LargeBody {
  readonly bytesMax: number;
  readonly handle: BodyHandler;
}

/**
 * A body that means nothing: up to limits.bodyDiscardBytesMax its bytes are dropped as they arrive, and the
 * handler gets an empty one.
 */
export interface IgnoredBody {
  readonly ignoresBody: true;
  readonly handle: BodyHandler;
}

/**
 * A WebSocket connection (RFC 6455), as its listener sees it. Once it is closed its methods do nothing.
 */
export interface StreamSocket {
  /** Sends each text as a message of its own, in order, in as few packets as possible. */
  send(messages: readonly string[]): void;
  /** Bytes that were sent and that the network has not taken yet, because the client does not read. */
  readonly bufferedBytes: number;
  /**
   * Reads nothing more of the connection until `resume`, so that the client waits; what was read already may
   * still come. uWebSockets.js has no way to do so: it reads on.
   */
  pause(): void;
  resume(): void;
  ping(): void;
  /**
   * Ends the connection with a close frame after what is buffered. A client that does not answer it is cut
   * off after at most httpLimits.streamCloseMsMax. `reason`: ASCII, at most 123 bytes.
   */
  close(code: number, reason: string): void;
  /** Cuts the connection off without a close frame. */
  terminate(): void;
}

/** Called back by the adapter, one call at a time. What a call throws is logged, and nothing else happens. */
export interface StreamListener {
  /**
   * A whole message, its fragments put together. `bytes` are the server's and may be gone when this returns.
   * The bytes of a text are valid UTF-8.
   */
  onMessage(bytes: Buffer, isBinary: boolean): void;
  /** The client has sent a ping. The adapter answers it: what the client does not read is buffered. */
  onPing(): void;
  /** The client has answered a ping. */
  onPong(): void;
  /** The network has taken what was buffered, or some of it. */
  onDrain(): void;
  /** Called once, whichever side closed the connection; with uWebSockets.js possibly during `close`. */
  onClose(): void;
}

/** The request becomes a WebSocket, and `open` is called with it before the handler's turn ends. */
export interface Upgrade {
  /** Of the answer, beside those of RFC 6455; names in lower case. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly open: (socket: StreamSocket) => StreamListener;
}

/**
 * Called synchronously for each request, body or not: routing, authentication and scope come before the body
 * (contract §5). Either it answers at once, and the body is thrown away, or it returns what shall happen with
 * the body. It must see to its own deadline: an adapter waits for `reply` as long as the client does. A throw
 * is logged and answered `internal_error`.
 *
 * Only a complete handshake may be answered with an Upgrade: GET at `ListenOptions.streamPath`, without a
 * body, with the headers of RFC 6455 §4.2.1. An adapter refuses any other `invalid_request`.
 */
export type RequestHandler = (head: RequestHead) => Reply | BodyHandler | LargeBody | IgnoredBody | Upgrade;

/** What an adapter answers by itself, worded by the application so that every error has the same body. */
export type Refusal =
  | 'body_too_large'
  | 'content_length'
  | 'headers_too_large'
  | 'internal_error'
  | 'invalid_request'
  | 'overloaded'
  | 'transfer_encoding';

export interface ListenOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /**
   * true: a second listener on the port is refused with EADDRINUSE. false: threads of this process share the
   * port; see `ServerPort.sharesPorts`.
   */
  readonly exclusive: boolean;
  readonly handler: RequestHandler;
  /**
   * `bodyBytesMax`: of the request that is refused; absent where nothing of it was read. Must not throw; the
   * connection is closed without an answer if it does.
   */
  readonly refuse: (refusal: Refusal, bodyBytesMax?: number) => Reply;
  /**
   * Further headers that the handler reads of a request to this path, in lower case. Default none: nearly all
   * requests need no others, and gathering them costs each request a pass over their names.
   */
  readonly headerNamesOf?: (path: string) => readonly string[];
  /** Where the handler may answer with an Upgrade. Default: nowhere. */
  readonly streamPath?: string;
  /** Called with the status of every answer that the adapter writes, 101 included. It must not throw. */
  readonly onAnswer?: (status: number) => void;
  readonly logger: Logger;
}

export interface Listening {
  readonly port: number;
  /** Requests that have arrived and are neither answered nor given up by their client. */
  readonly openRequests: number;
  /**
   * Each connection is closed after its next answer. New ones are still accepted, so that clients which ramp
   * down find an open port.
   */
  startDraining(): void;
  /** startDraining, and no new connections. Open requests go on. */
  stopAccepting(): void;
  /**
   * stopAccepting, then waits for the open requests, at most limits.drainMsMax, then closes every connection.
   * Never rejects. `node:http` sees the answers out that it gives meanwhile. uWebSockets.js, which does not
   * say when an answer has left, cuts off what the kernel has not taken of it.
   */
  close(): Promise<void>;
}

/**
 * The sidecar's HTTP/1.1 server. Both adapters promise, and one contract suite shows:
 *
 * - A request is answered at most once, and its client is never left hanging by a handler that throws.
 * - A body of up to limits.bodyBytesMax, or as much as its route takes, arrives whole. A longer one is read
 *   on to limits.bodyDiscardBytesMax and then refused `body_too_large`; if there is more than that, the
 *   connection is closed after the answer.
 * - Bodies of over limits.bodyBytesMax that come in pieces hold at most httpLimits.largeBodiesBytesMax
 *   together. One without room is read to its end and then refused `overloaded`.
 * - `Transfer-Encoding` is refused `transfer_encoding`, a repeated `Content-Length` or one that is no number
 *   `content_length`; the connection is closed. Such a request means different things to different servers in
 *   a row, which is how requests are smuggled (RFC 9112 §11.2).
 * - HEAD gets the headers of the same answer, GET may have a body, `Expect: 100-continue` is continued.
 * - Requests that a client pipelines are answered in order if each is answered before its handler returns.
 *   After an answer that comes later, `node:http` queues them. uWebSockets.js has read them already and can
 *   neither keep them nor give them back: it closes the connection, and the adapter logs a warning that names
 *   `SIDECAR_HTTP=node`.
 * - A WebSocket takes messages of up to httpLimits.streamMessageBytesMax, in any number of fragments, and
 * pings.
 *   A longer message, a text that is not UTF-8 and whatever else RFC 6455 forbids ends the connection: with
 *   the code that the RFC names (`node:http`), or without a close frame (uWebSockets.js, which does not look
 *   at whether a client masks). Nothing is compressed. `Upgrade` to anything else, or at another path, is
 *   ignored.
 * - A client that ends its side of the connection before it is answered counts as gone.
 * - A connection that sends half a request and then nothing is closed after about
 * httpLimits.requestSilenceMsMax.
 *
 * Where the parsers differ, the connection is refused or closed in either: no Host header, folded headers,
 * HTTP/1.0, a target that is no path.
 */
export interface ServerPort {
  readonly name: 'uWebSockets.js' | 'node:http';
  /**
   * Why this one was chosen, where it is not the preferred one; null where it is. For the log and `/readyz`.
   */
  readonly fallbackReason: string | null;
  /**
   * Several threads may listen on one port, not 0, with `exclusive: false`. Then another process can join in
   * unnoticed, so a caller that shares a port first listens on it exclusively, and closes that listener, to
   * make sure that no other process does.
   */
  readonly sharesPorts: boolean;
  /** Rejects with the system's error (`code` EADDRINUSE, EACCES, ...) if the address cannot be had. */
  listen(options: ListenOptions): Promise<Listening>;
}
