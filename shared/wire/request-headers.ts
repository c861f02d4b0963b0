/**
 * Headers of which a second one would make a request mean two things: one reader takes the first, another the
 * last (contract §12). In lower case.
 */
export const singleHeaders: readonly string[] = ['authorization', 'content-type', 'idempotency-key'];

/** What is white space around the value of a header, and nothing else (RFC 9110 §5.6.3): not the byte A0. */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09;

/** Whether a `Content-Encoding` leaves the body as it is; '' is that of a request without the header. */
export const isIdentity = (contentEncoding: string): boolean =>
  contentEncoding === '' ||
  contentEncoding.split(',').every((coding) => /^(?:identity)?$/i.test(trimBlanks(coding)));
