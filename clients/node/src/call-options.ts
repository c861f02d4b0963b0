/** Options of every call, its last argument. */
export interface CallOptions {
  /** Ends the call: the promise is rejected with the reason of the signal. */
  readonly signal?: AbortSignal;
  /** Deadline of the whole call with its retries, in milliseconds; default that of the client. */
  readonly deadlineMs?: number;
  /**
   * The W3C Trace Context of what the call is for (a `traceparent` header), which the service takes as the
   * parent. Ignored where it is not valid, and where checks go over a stream.
   */
  readonly traceparent?: string;
  /** The `tracestate` header beside it, passed on as it is; ignored without a valid `traceparent`. */
  readonly tracestate?: string;
}

/** Options of creating calls. */
export interface CreateOptions extends CallOptions {
  /**
   * 1 to 128 visible ASCII characters, kept for 24 h (contract §12). Default: a random one for each call,
   * which stays the same over the retries of that call. Give your own to make it hold over restarts of your
   * program too.
   */
  readonly idempotencyKey?: string;
}

/**
 * A list of the API. `await` it for the first page, or go through all items of all pages with `for await`.
 * Each use calls the service again. A walk follows `next_cursor`: concurrent changes neither repeat nor skip
 * other items. A service before version 0.3 has no cursors on most lists, and is walked by `offset`, which
 * shifts.
 */
export interface List<Item, Page> extends AsyncIterable<Item>, PromiseLike<Page> {
  /** All pages, one after another. */
  pages(): AsyncIterable<Page>;
}

/** An export as it arrives. Read it to its end, or leave the loop: both release the connection. */
export type ByteStream = AsyncIterable<Uint8Array>;
