/** W3C Trace Context, level 1: the trace that a request belongs to. */
export interface TraceContext {
  /** 32 hex characters, not all 0. */
  readonly traceId: string;
  /** Of the span that caused the request: 16 hex characters, not all 0. */
  readonly parentId: string;
  /** The caller exports its spans of the trace. */
  readonly isSampled: boolean;
  /** The header as it came, to be passed on by a program that adds no span of its own. */
  readonly traceparent: string;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Of a version to come: what it may add is not known, and is passed on as it is. */
const charsMax = 128;

/**
 * What a `traceparent` header says. Null for anything that is not exactly one: upper case, version ff, an id
 * of zeros, members behind version 00, two headers in one. The trace then begins anew, and no request fails.
 */
export function parseTraceparent(header: string | readonly string[] | undefined): TraceContext | null {
  if (typeof header !== 'string' || header === '' || header.length > charsMax) return null;
  const [, version, traceId, parentId, flags = '', rest] = form.exec(header) ?? [];
  if (version === undefined || traceId === undefined || parentId === undefined) return null;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return null;
  return { traceId, parentId, isSampled: (Number.parseInt(flags, 16) & 1) === 1, traceparent: header };
}

/** For a log line of a request with this header: its trace, where it names one. */
export function traceFields(traceparent: string): { readonly trace_id?: string } {
  const trace = parseTraceparent(traceparent);
  return trace === null ? {} : { trace_id: trace.traceId };
}
