import { isUtf8 } from 'node:buffer';
import { ApiError } from '../../shared/errors/api-error.ts';
import { parseJsonText, readJsonText } from '../../shared/wire/json.ts';

/**
 * An empty body counts as `{}`, so that the error names the missing field. Throws `invalid_json` for invalid
 * JSON, and `invalid_request` for JSON that is not accepted (shared/wire/json.ts).
 */
export const parseBody = (body: Buffer): unknown => (body.length === 0 ? {} : parseJsonText(textOf(body)));

/** The same for a body of several checks: whether their JSON is accepted is asked for each of them. */
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
