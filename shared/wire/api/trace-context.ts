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
  /** What systems of tracing keep beside it, to be passed on as it came; '': nothing. */
  readonly tracestate: string;
}

/** The two headers of a request, unread; '': absent. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate: string;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Of a version to come: what it may add is not known, and is passed on as it is. */
const charsMax = 128;

/**
 * What a `traceparent` header says. Null for anything that is not exactly one: upper case, version ff, an id
 * of zeros, members after version 00, two headers in one. The trace then begins anew, and no request fails.
 */
export function parseTraceparent(
  header: string | readonly string[] | undefined,
  tracestate: string | readonly string[] | undefined = '',
): TraceContext | null {
  if (typeof header !== 'string' || header === '' || header.length > charsMax) return null;
  const [, version, traceId, parentId, flags = '', rest] = form.exec(header) ?? [];
  if (version === undefined || traceId === undefined || parentId === undefined) return null;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return null;
  return {
    traceId,
    parentId,
    isSampled: (Number.parseInt(flags, 16) & 1) === 1,
    traceparent: header,
    tracestate: parseTracestate(tracestate),
  };
}

/** W3C Trace Context §3.3: so much everybody passes on, and members beyond so many make it invalid. */
const tracestateMost = { chars: 512, members: 32 } as const;
const memberForm =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/**
 * What a `tracestate` header says, without empty members; several headers are one list. '' for one that is
 * not valid, names a key twice or is longer than the bounds: it is left out as a whole, and the trace goes
 * on.
 */
export function parseTracestate(header: string | readonly string[] | undefined): string {
  const text = typeof header === 'string' ? header : (header?.join(',') ?? '');
  if (text === '' || text.length > tracestateMost.chars) return '';
  const members = text
    .split(',')
    .map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((member) => member !== '');
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf('='))));
  if (keys.size !== members.length || members.length > tracestateMost.members) return '';
  return members.every((member) => memberForm.test(member)) ? members.join(',') : '';
}

/** As they are sent on. */
export const renderTraceHeaders = ({ traceparent, tracestate }: TraceHeaders) => ({
  traceparent,
  ...(tracestate !== '' && { tracestate }),
});

/** For a log line of a request with this header: its trace, where it names one. */
export function traceFields(traceparent: string): { readonly trace_id?: string } {
  const trace = parseTraceparent(traceparent);
  return trace === null ? {} : { trace_id: trace.traceId };
}
