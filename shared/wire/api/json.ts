import { isLossless, type JsonLoss, jsonLosses } from '../../crypto/json-losses.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import { limits } from '../../model/limits.ts';

/**
 * Parses the text of a body. Throws `invalid_json` for text that is not JSON, and `invalid_request` for
 * unsafe JSON (`assertSafeJson`) and for JSON that a parser reads with a loss (`assertLossless`).
 */
export function parseJsonText(text: string): unknown {
  const value = readJsonText(text);
  assertSafeJson(value);
  assertLossless(text, value);
  return value;
}

/** The first part of `parseJsonText`: its result is not safe yet. */
export function readJsonText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without the cause: the message of a SyntaxError quotes the text, which may hold a passport.
    throw new ApiError('invalid_json');
  }
}

/**
 * Throws `invalid_request`, naming the place, unless a parsed JSON value is nested at most
 * `limits.jsonDepthMax` deep and free of values that change later (contract §5): a lone surrogate, which has
 * no UTF-8 and no RFC 8785 form; a `__proto__` member, which becomes a prototype when the object is copied; a
 * number beyond the doubles, which JSON.parse reads as Infinity.
 */
export function assertSafeJson(value: unknown): void {
  const fault = findFault(value, 0);
  if (fault === null) return;
  throw refusal(fault.path.reverse(), fault.sentence);
}

/**
 * Throws `invalid_request`, naming the place, if `value`, the result of JSON.parse, lacks something of the
 * text (contract §5). Bodies are I-JSON (RFC 7493): another parser may keep what is lost here, and a hash
 * would not show the difference.
 */
export function assertLossless(text: string, value: unknown): void {
  if (isLossless(text, value)) return;
  const { value: loss } = jsonLosses(text).next();
  // The scanner and the comparison disagree: refuse.
  throw loss === undefined ? invalidRequest('body', sentences.name) : lossRefusal(loss);
}

/** The error of a loss. Its path is named without the first `skipped` steps. */
export const lossRefusal = ({ kind, path }: JsonLoss, skipped = 0): ApiError =>
  refusal(path.slice(skipped), sentences[kind]);

const sentences = {
  number: 'A number has more digits than a double holds, or is out of its range: send it as a string.',
  name: 'Two members of one object have the same name: send one of them.',
} as const satisfies Record<JsonLoss['kind'], string>;

function refusal(path: readonly (string | number)[], sentence: string): ApiError {
  const strange = path.findIndex((name) => typeof name === 'string' && !fieldLikeName.test(name));
  const shown = (strange === -1 ? path : path.slice(0, strange)).join('.').slice(0, paramCharsMax);
  return invalidRequest(shown === '' ? 'body' : shown, sentence);
}

/** The error quotes member names of the caller; this many characters show the place. */
const paramCharsMax = 100;

/**
 * A name that looks like a field's: letters, with a few digits at the end. Others may be personal data (an
 * address, a number, an account), so an error names their object instead.
 */
const fieldLikeName = /^[a-z_][a-z_-]{0,62}\d{0,3}$/i;

interface Fault {
  /** Innermost first: filled in on the way out, so that a valid value costs no list. */
  readonly path: (string | number)[];
  readonly sentence: string;
}

/** `depth`: objects and arrays around the value. Recursion ends at the bound that it checks. */
function findFault(value: unknown, depth: number): Fault | null {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed()
        ? null
        : fault('A string contains a lone surrogate, which is not a character.');
    case 'number':
      return Number.isFinite(value) ? null : fault('A number is too large.');
    case 'object':
      if (value === null) return null;
      if (depth >= limits.jsonDepthMax) return fault(`Nesting is deeper than ${limits.jsonDepthMax}.`);
      return Array.isArray(value) ? findFaultInArray(value, depth + 1) : findFaultInObject(value, depth + 1);
    default:
      return null;
  }
}

function findFaultInArray(items: readonly unknown[], depth: number): Fault | null {
  for (let index = 0; index < items.length; index++) {
    const found = findFault(items[index], depth);
    if (found !== null) return inside(found, index);
  }
  return null;
}

function findFaultInObject(members: object, depth: number): Fault | null {
  // Parsed JSON has no inherited members, so `for in` lists its own without an array.
  for (const name in members) {
    if (name === '__proto__') return fault('The member name __proto__ is not allowed.');
    if (!name.isWellFormed())
      return fault('A member name contains a lone surrogate, which is not a character.');
    const found = findFault((members as Readonly<Record<string, unknown>>)[name], depth);
    if (found !== null) return inside(found, name);
  }
  return null;
}

const fault = (sentence: string): Fault => ({ path: [], sentence });

function inside(found: Fault, name: string | number): Fault {
  found.path.push(name);
  return found;
}
