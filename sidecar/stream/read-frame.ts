import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { assertSafeJson } from '../../shared/wire/json.ts';
import { parseUncheckedBody } from '../enforce/parse-body.ts';
import { streamLimits } from './limits.ts';

/** A frame whose id is known, so that whatever else is wrong with it can be answered under that id. */
export interface NamedFrame {
  readonly id: string;
  /** The frame as it came, unread but for its id. */
  readonly members: JsonObject;
}

/** Throws `invalid_json`, and `invalid_request` for a frame without an id of 1 to 64 characters. */
export function nameFrame(bytes: Buffer): NamedFrame {
  const members = parseUncheckedBody(bytes);
  if (!isJsonObject(members)) throw invalidRequest('body', 'A frame must be an object.');
  const { id } = members;
  const isId = typeof id === 'string' && id.length >= 1 && id.length <= streamLimits.frameIdCharsMax;
  if (!isId || !id.isWellFormed()) {
    throw invalidRequest(
      'id',
      `id must be a string of 1 to ${streamLimits.frameIdCharsMax} characters, without lone surrogates.`,
    );
  }
  return { id, members };
}

/** What a frame asks, in the words of `POST /v1/gates/:id/check`. */
interface FrameCheck {
  /** As in the URL, unchecked; null: as `/v1/enforce`. */
  readonly gateId: string | null;
  /** What the body would be, unread. */
  readonly body: JsonObject;
}

/**
 * Throws `invalid_request` for JSON that no body may hold, and for a `gate_id` that is neither a string nor
 * null. It may not be left out: a name with a typo must not turn into no gate.
 */
export function readFrame({ members }: NamedFrame): FrameCheck {
  assertSafeJson(members);
  const { id: _, gate_id: gateId, ...body } = members;
  const isGateId = typeof gateId === 'string' && gateId.length <= limits.pathParamCharsMax;
  if (gateId !== null && !isGateId) {
    throw invalidRequest('gate_id', 'gate_id must be the id of a gate, or null for a check without one.');
  }
  return { gateId, body };
}
