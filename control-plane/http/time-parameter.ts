import { invalidRequest } from '../../shared/errors/api-error.ts';
import { parseTime, type UnixMillis } from '../../shared/model/time.ts';

/** A time in a query; null where it is absent. Throws `invalid_request` for any other text. */
export function readTimeParameter(param: string, text: string | undefined): UnixMillis | null {
  if (text === undefined) return null;
  const timeMs = parseTime(text);
  if (timeMs === null)
    throw invalidRequest(param, `${param} must be an RFC 3339 date-time: 2026-11-01T00:00:00Z.`);
  return timeMs;
}
