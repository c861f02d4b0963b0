import { isJsonObject, type JsonObject } from '../../../shared/crypto/json-object.ts';
import type { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import { invalidRequest } from '../../../shared/errors/api-error.ts';
import { limits } from '../../../shared/model/limits.ts';
import { assertLossless, assertSafeJson } from '../../../shared/wire/api/json.ts';
import type { TraceHeaders } from '../../../shared/wire/api/trace-context.ts';
import { canonicalCheck, parseUncheckedBody, type ReadCheck } from '../read-check.ts';
import { streamLimits } from './limits.ts';

/** A frame whose id is known, so that whatever else is wrong with it can be answered under that id. */
export interface NamedFrame {
  readonly id: string;
  readonly idJson: string;
  /** The frame as it came, unread but for its id. */
  readonly members: JsonObject;
  readonly text: string;
  /** See RequestWriter. */
  readonly isUnescaped: boolean;
}

/**
 * `message`: as it came, or its text where all of its characters are ASCII. Throws `invalid_json`, and
 * `invalid_request` for a frame without an id of 1 to 64 characters.
 */
export function nameFrame(message: Buffer | string): NamedFrame {
  const { value: members, text, isUnescaped } = parseUncheckedBody(message);
  if (!isJsonObject(members)) throw invalidRequest('body', 'A frame must be an object.');
  const { id } = members;
  const isId = typeof id === 'string' && id.length >= 1 && id.length <= streamLimits.frameIdCharsMax;
  if (!isId || !id.isWellFormed()) {
    throw invalidRequest(
      'id',
      `id must be a string of 1 to ${streamLimits.frameIdCharsMax} characters, without lone surrogates.`,
    );
  }
  // What is plain holds no character that JSON escapes.
  return { id, idJson: isUnescaped ? `"${id}"` : JSON.stringify(id), members, text, isUnescaped };
}

/** The members that a frame may have beside those of 0.2.0. The answer to the handshake names them. */
export const frameMembers = ['traceparent', 'tracestate'] as const;

/**
 * The trace of a frame, each text unread, as of a request's headers (contract §12). Throws `invalid_request`
 * for what is no text.
 */
export const traceOfFrame = ({ members }: Pick<NamedFrame, 'members'>): TraceHeaders => ({
  traceparent: textOf(members, 'traceparent'),
  tracestate: textOf(members, 'tracestate'),
});

function textOf(members: JsonObject, name: (typeof frameMembers)[number]): string {
  const value = members[name] ?? '';
  if (typeof value !== 'string') throw invalidRequest(name, `${name} must be a string.`);
  return value;
}

/** What a frame asks. */
export interface FrameCheck {
  /** As in the URL, unchecked; null: as `/v1/enforce`. */
  readonly gateId: string | null;
  readonly read: ReadCheck;
}

/**
 * Throws `invalid_request` for JSON that no body may hold, for a `gate_id` that is neither a string nor null,
 * and for what is no check. The `gate_id` may not be left out: a name with a typo must not turn into no gate.
 */
export function readFrame(frame: NamedFrame, writer: RequestWriter): FrameCheck {
  return readUsualFrame(frame, writer) ?? readAnyFrame(frame, writer);
}

/** A frame that has its members and is in order, in one walk; null: it may be another one. */
function readUsualFrame(frame: NamedFrame, writer: RequestWriter): FrameCheck | null {
  const { members, text, isUnescaped } = frame;
  const { gate_id: gateId, passport, request, traceparent, tracestate } = members;
  let count = 0;
  // Parsed JSON has no inherited members.
  for (const _name in members) count++;
  // With its id, which has been looked at, these are all.
  const isTraced = count > 4 && isUnescaped;
  if (isTraced ? count !== tracedMembers(traceparent, tracestate) : count !== 4) return null;
  if (typeof passport !== 'string' || !isJsonObject(request)) return null;
  if (gateId !== null && !isGateId(gateId)) return null;
  if (!isUnescaped && !(passport.isWellFormed() && (gateId?.isWellFormed() ?? true))) return null;
  const canonical = writer.write(request, { depth: 1, isUnescaped });
  if (canonical === null) return null;
  // What is plain stands in the text as it is, between quotation marks.
  const gateChars = gateId === null ? 4 : gateId.length + 2;
  const traceChars = isTraced ? charsOfTrace(traceparent, tracestate) : 0;
  const chars = usualMembers.length + frame.idJson.length + gateChars + passport.length + 2 + traceChars;
  if (!writer.isWholeOf(text, { chars, members: count })) return null;
  return { gateId, read: { call: { passport, request }, canonical } };
}

const usualMembers = '{"id":,"gate_id":,"passport":,"request":}';

/** Members of a frame with these two; 0: it is not as usual. */
function tracedMembers(traceparent: unknown, tracestate: unknown): number {
  if (typeof traceparent !== 'string') return 0;
  if (tracestate === undefined) return 5;
  return typeof tracestate === 'string' ? 6 : 0;
}

const charsOfTrace = (traceparent: unknown, tracestate: unknown): number =>
  ',"traceparent":""'.length +
  (traceparent as string).length +
  (tracestate === undefined ? 0 : ',"tracestate":""'.length + (tracestate as string).length);

/** The plain version of it. */
export function readAnyFrame(
  { members, text }: Pick<NamedFrame, 'members' | 'text'>,
  writer: RequestWriter,
): FrameCheck {
  assertSafeJson(members);
  assertLossless(text, members);
  const { id: _, gate_id: gateId, traceparent: _1, tracestate: _2, ...body } = members;
  if (gateId !== null && !isGateId(gateId)) {
    throw invalidRequest('gate_id', 'gate_id must be the id of a gate, or null for a check without one.');
  }
  return { gateId, read: canonicalCheck(body, writer, false) };
}

const isGateId = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= limits.pathParamCharsMax;
