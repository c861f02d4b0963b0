import { isAscii, isUtf8 } from 'node:buffer';
import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { type CheckCall, isCheckCall, parseCheckBody } from '../../shared/wire/check.ts';
import { assertSafeJson, readJsonText } from '../../shared/wire/json.ts';

/** A check as its caller sent it. */
export interface ReadCheck {
  readonly call: CheckCall;
  /** The RFC 8785 form of its request, where reading it has shown that already. */
  readonly canonical: string | null;
}

/**
 * The check that a body holds. An empty body counts as `{}`, so that the error names the missing field.
 * Throws `invalid_json` for invalid JSON, and `invalid_request` for JSON that is not accepted
 * (shared/wire/json.ts), or is not a check.
 */
export function readCheck(body: Buffer, writer: RequestWriter): ReadCheck {
  if (body.length === 0) return { call: parseCheckBody({}), canonical: null };
  const isAsciiBody = isAscii(body);
  const text = isAsciiBody ? body.toString('latin1') : textOf(body);
  const value = readJsonText(text);
  if (isCheckCall(value) && value.passport.isWellFormed()) {
    const isPlain = isAsciiBody && !text.includes('\\');
    const canonical = writer.write(value.request, { depth: 1, isPlain });
    if (canonical !== null) return { call: value, canonical };
  }
  // Says what is wrong, in the order in which it is looked for.
  assertSafeJson(value);
  return { call: parseCheckBody(value), canonical: null };
}

/** The JSON of a body of several checks: whether it is accepted is asked for each of them. */
export const parseUncheckedBody = (body: Buffer): unknown =>
  body.length === 0 ? {} : readJsonText(textOf(body));

/**
 * The decoding is strict, where Node's own would replace what is no UTF-8: the hash in the record must be of
 * what the caller sent.
 */
function textOf(body: Buffer): string {
  if (!isUtf8(body)) throw new ApiError('invalid_json', { message: 'The body is not valid UTF-8.' });
  return body.toString('utf8');
}
