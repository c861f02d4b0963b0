/**
 * Headers that may occur once only: of two, one reader uses the first and another the last (contract §12). In
 * lower case. Of `host` RFC 9112 §3.2 says so for every request.
 */
export const singleHeaders: readonly string[] = ['authorization', 'content-type', 'idempotency-key', 'host'];

/** Trims the white space of header values (RFC 9110 §5.6.3) and nothing else: not the byte A0. */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09;

/** Whether a `Content-Encoding` leaves the body unencoded; '' if the header is absent. */
export const isIdentity = (contentEncoding: string): boolean =>
  contentEncoding === '' ||
  contentEncoding.split(',').every((coding) => /^(?:identity)?$/i.test(trimBlanks(coding)));
