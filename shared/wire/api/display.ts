import { Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import type { ApprovalDisplay } from '../../model/approval.ts';
import { limits } from '../../model/limits.ts';
import { parseUrlHost, webUrlRule } from './domain.ts';
import { closed, nullable, plainText } from './fields.ts';
import { shapeReader } from './shape.ts';

const line = (charsMax: number) =>
  closed({
    label: plainText({ minLength: 1, maxLength: charsMax }),
    value: plainText({ maxLength: charsMax }),
  });
const shape = (charsMax: number) => ({
  title: plainText({ minLength: 1, maxLength: charsMax }),
  lines: Type.Array(line(charsMax), { maxItems: limits.displayLinesMax }),
});

/** `request.display` (contract §8). Its parser bounds the whole. */
export const Display = closed({
  ...shape(limits.displayBytesMax),
  url: Type.Optional(nullable(Type.String({ maxLength: limits.displayBytesMax }))),
});

/** Between the programs: read already, and possibly longer after redaction. */
export const DisplayInTransit = closed({
  ...shape(limits.redactedDisplayCharsMax),
  url: nullable(Type.String({ maxLength: limits.redactedDisplayCharsMax })),
});

/** In the answers of the API. */
export const DisplayAnswer = Type.Object({
  title: Type.String(),
  lines: Type.Array(Type.Object({ label: Type.String(), value: Type.String() })),
  url: nullable(Type.String()),
});

const readShape = shapeReader(Display);

/**
 * Throws `invalid_request`, naming the field at fault. `at`: the path of the value in the body. A URL of
 * another scheme than http and https, and one that readers take for different addresses, is refused: a person
 * will follow it.
 */
export function parseDisplay(value: unknown, at: string): ApprovalDisplay {
  const { title, lines, url = null } = readShape(value, at);
  if (url !== null && parseUrlHost(url) === null)
    throw invalidRequest(`${at}.url`, `${at}.url must be ${webUrlRule}.`);
  if (Buffer.byteLength(JSON.stringify(value)) > limits.displayBytesMax)
    throw invalidRequest(at, `${at} must be at most ${limits.displayBytesMax} bytes of JSON.`);
  return { title, lines, url };
}
