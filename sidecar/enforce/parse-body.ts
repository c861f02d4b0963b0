import { isAscii, isUtf8 } from 'node:buffer';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { type CheckCall, isCheckCall, parseCheckBody } from '../../shared/wire/check.ts';
import { assertSafeJson, readJsonText } from '../../shared/wire/json.ts';

/** A check that was found to be one. */
export interface CanonicalCheck {
  readonly call: CheckCall;
  /** The RFC 8785 form of its request, where reading it has shown that already. */
  readonly canonical: string | null;
}

/** A check as its caller sent it. */
interface ReadCheck extends CanonicalCheck {
  /** Where its token was found to be known already. */
  readonly passport: VerifiedPassport | null;
}

/** How much of a body is written around token and request: by JSON.stringify, and by Python's `json`. */
const usualLayouts = [
  { before: '{"passport":"', between: '","request":' },
  { before: '{"passport": "', between: '", "request": ' },
] as const;

/**
 * The check that a body holds. An empty body counts as `{}`, so that the error names the missing field.
 * Throws `invalid_json` for invalid JSON, and `invalid_request` for JSON that is not accepted
 * (shared/wire/json.ts), or is not a check. `known`: the passport of exactly that token; null: it is not
 * known.
 */
export function readCheck(
  body: Buffer,
  writer: RequestWriter,
  known: (token: string) => VerifiedPassport | null,
): ReadCheck {
  if (body.length === 0) return { call: parseCheckBody({}), canonical: null, passport: null };
  const isAsciiBody = isAscii(body);
  const text = isAsciiBody ? body.toString('latin1') : textOf(body);
  const isPlain = isAsciiBody && !text.includes('\\');
  const usual = readUsualCheck(text, known);
  const value = usual === null ? readJsonText(text) : usual.call;
  if (isCheckCall(value) && value.passport.isWellFormed()) {
    const canonical = writer.write(value.request, { depth: 1, isPlain });
    if (canonical !== null) return { call: value, canonical, passport: usual?.passport ?? null };
  }
  // Says what is wrong, in the order in which it is looked for.
  assertSafeJson(value);
  return { call: parseCheckBody(value), canonical: null, passport: null };
}

/**
 * The check in a text that is written in a usual layout and has a token that is known: two thirds of it are
 * that token, and only the request is parsed. Null for any other text. A text that is read here is one that
 * JSON.parse takes, and reads alike: a known token has no character that ends a JSON string, begins an escape
 * or may not stand in one, and what is around it is written here.
 */
function readUsualCheck(
  text: string,
  known: (token: string) => VerifiedPassport | null,
): Pick<ReadCheck, 'call' | 'passport'> | null {
  const layout = usualLayouts.find(({ before }) => text.startsWith(before));
  if (layout === undefined || !text.endsWith('}')) return null;
  const { before, between } = layout;
  const tokenEnd = text.indexOf('"', before.length);
  if (tokenEnd === -1 || !text.startsWith(between, tokenEnd)) return null;
  const request = parseOrNull(text.slice(tokenEnd + between.length, -1));
  if (!isJsonObject(request)) return null;
  const token = text.slice(before.length, tokenEnd);
  const passport = known(token);
  return passport === null ? null : { call: { passport: token, request }, passport };
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
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
