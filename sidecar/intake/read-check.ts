import { isAscii, isUtf8 } from 'node:buffer';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import type { RequestWriter } from '../../shared/crypto/request-writer.ts';
import type { RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { type CheckCall, isCheckCall, parseCheckBody } from '../../shared/wire/api/check.ts';
import { assertLossless, assertSafeJson, readJsonText } from '../../shared/wire/api/json.ts';

/** A check in the words of `POST check`, whatever words it came in. */
export interface ReadCheck {
  readonly call: CheckCall;
  /** The RFC 8785 form of its request, where reading it has shown that already. */
  readonly canonical: string | null;
  /** The passport of exactly this token, where reading has found it. */
  readonly passport?: VerifiedPassport | null;
  /** Throws where the check does not fit its passport. */
  readonly accept?: (passport: VerifiedPassport) => void;
  /** What it asks for by the routes of the gate's shadow. Absent: the same. */
  readonly underShadow?: Pick<RequestFacts, 'permissionKey' | 'amountMicroUsd'>;
}

interface UsualCheck {
  readonly call: CheckCall;
  readonly passport: VerifiedPassport;
  /** Of the request alone. */
  readonly text: string;
  /** See RequestWriter. */
  readonly isUnescaped: boolean;
}

/** How much of a body is written around token and request: by JSON.stringify, and by Python's `json`. */
const usualLayouts = [
  { before: '{"passport":"', between: '","request":' },
  { before: '{"passport": "', between: '", "request": ' },
] as const;

/**
 * The check that a body holds. An empty body counts as `{}`, so that the error names the missing field.
 * Throws `invalid_json` for invalid JSON, and `invalid_request` for JSON that is not accepted
 * (shared/wire/api/json.ts), or is not a check. `known`: the passport of exactly that token; null: it is not
 * known.
 */
export function readCheck(
  body: Buffer,
  writer: RequestWriter,
  known: (token: string) => VerifiedPassport | null,
): ReadCheck {
  if (body.length === 0) return { call: parseCheckBody({}), canonical: null, passport: null };
  const isAsciiBody = isAscii(body);
  const chars = body.toString('latin1');
  const usual = readUsualCheck(body, chars, isAsciiBody, known);
  if (usual !== null) {
    const { call, passport, text, isUnescaped } = usual;
    const canonical = writer.write(call.request, { depth: 1, isUnescaped });
    if (canonical !== null && writer.isWholeOf(text)) return { call, canonical, passport };
  }
  const text = isAsciiBody ? chars : textOf(body);
  const value = readJsonText(text);
  const check = soundCheck(value, writer, isAsciiBody && !text.includes('\\'));
  if (check === null) assertSafeJson(value);
  assertLossless(text, value);
  return { ...(check ?? { call: parseCheckBody(value), canonical: null }), passport: null };
}

/**
 * The check in a value of parsed JSON. Throws `invalid_request` for JSON that is not accepted, or is not a
 * check: what is wrong is said in the order in which it is looked for. `isUnescaped`: see RequestWriter.
 */
export function canonicalCheck(value: unknown, writer: RequestWriter, isUnescaped: boolean): ReadCheck {
  const check = soundCheck(value, writer, isUnescaped);
  if (check !== null) return check;
  assertSafeJson(value);
  return { call: parseCheckBody(value), canonical: null };
}

/** Null: it may be none, or not be accepted. */
function soundCheck(value: unknown, writer: RequestWriter, isUnescaped: boolean): ReadCheck | null {
  if (!isCheckCall(value) || !(isUnescaped || value.passport.isWellFormed())) return null;
  const canonical = writer.write(value.request, { depth: 1, isUnescaped });
  return canonical === null ? null : { call: value, canonical };
}

/**
 * The check in a body that is written in a usual layout and has a token that is known: two thirds of it are
 * that token, and only the request is decoded and parsed. Null for any other body. What is read here is what
 * JSON.parse takes, and read alike: a known token has no character that ends a JSON string, begins an escape
 * or may not stand in one, and what is around it is written here. `chars`: a character for each byte, which
 * is right for all but the request.
 */
function readUsualCheck(
  body: Buffer,
  chars: string,
  isAsciiBody: boolean,
  known: (token: string) => VerifiedPassport | null,
): UsualCheck | null {
  const layout = usualLayouts.find(({ before }) => chars.startsWith(before));
  if (layout === undefined || !chars.endsWith('}')) return null;
  const { before, between } = layout;
  const tokenEnd = chars.indexOf('"', before.length);
  if (tokenEnd === -1 || !chars.startsWith(between, tokenEnd)) return null;
  const token = chars.slice(before.length, tokenEnd);
  const passport = known(token);
  if (passport === null) return null;
  const requestAt = tokenEnd + between.length;
  if (!isAsciiBody && !isUtf8(body)) return null;
  const text = isAsciiBody ? chars.slice(requestAt, -1) : body.toString('utf8', requestAt, body.length - 1);
  const request = parseOrNull(text);
  if (!isJsonObject(request)) return null;
  const isUnescaped = isAsciiBody && !text.includes('\\');
  return { call: { passport: token, request }, passport, text, isUnescaped };
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The JSON of a body of several checks: whether it is accepted is asked for each of them. */
export interface UncheckedBody {
  readonly value: unknown;
  readonly text: string;
  /** See RequestWriter. */
  readonly isUnescaped: boolean;
}

/** `body`: as it came, or its text where all of its characters are ASCII. */
export function parseUncheckedBody(body: Buffer | string): UncheckedBody {
  if (body.length === 0) return { value: {}, text: '{}', isUnescaped: true };
  const ascii = typeof body === 'string' ? body : asciiOf(body);
  const text = ascii ?? textOf(body as Buffer);
  return { value: readJsonText(text), text, isUnescaped: ascii !== null && !text.includes('\\') };
}

/** The text of a body whose characters are all ASCII; null for any other. */
export const asciiOf = (body: Buffer): string | null => (isAscii(body) ? body.toString('latin1') : null);

/**
 * The decoding is strict, where Node's own would replace what is no UTF-8: the hash in the record must be of
 * what the caller sent.
 */
function textOf(body: Buffer): string {
  if (!isUtf8(body)) throw new ApiError('invalid_json', { message: 'The body is not valid UTF-8.' });
  return body.toString('utf8');
}
