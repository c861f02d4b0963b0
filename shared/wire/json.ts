import { ApiError, invalidRequest } from '../errors/api-error.ts';
import { limits } from '../model/limits.ts';

/**
 * Parses the text of a body. Throws `invalid_json` for what is not JSON, and `invalid_request` for JSON that
 * the rest of the service must never meet (`assertSafeJson`). Of two members with one name the last counts,
 * as in every JSON.parse.
 */
export function parseJsonText(text: string): unknown {
  const value = readJsonText(text);
  assertSafeJson(value);
  return value;
}

/** The first half of `parseJsonText`: what it answers is not safe yet. */
export function readJsonText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without its cause: the message of a SyntaxError quotes the text, which may hold a passport.
    throw new ApiError('invalid_json');
  }
}

/**
 * Throws `invalid_request`, naming the place, unless a parsed JSON value is nested at most
 * `limits.jsonDepthMax` deep and free of what changes its meaning further in (contract §5): a lone surrogate,
 * which has no UTF-8 and no RFC 8785 form; a `__proto__` member, which turns into a prototype where somebody
 * copies the object; a number beyond the doubles, which JSON.parse reads as Infinity.
 */
export function assertSafeJson(value: unknown): void {
  const fault = findFault(value, 0);
  if (fault === null) return;
  const path = fault.path.reverse();
  const strange = path.findIndex((name) => typeof name === 'string' && !plainName.test(name));
  const shown = (strange === -1 ? path : path.slice(0, strange)).join('.').slice(0, paramCharsMax);
  throw invalidRequest(shown === '' ? 'body' : shown, fault.sentence);
}

/** A caller's own member names are in the error; a few of them show the place. */
const paramCharsMax = 100;

/**
 * A name that may be personal data itself (an address, a number, an account) is in no error: its object is
 * named instead. What looks like the name of a field is none: letters, with a few digits at the end.
 */
const plainName = /^[a-z_][a-z_-]{0,62}\d{0,3}$/i;

interface Fault {
  /** Innermost first: filled in on the way out, so that a sound value costs no list. */
  readonly path: (string | number)[];
  readonly sentence: string;
}

/** `depth`: objects and arrays around the value. Recursion ends at the bound that it guards. */
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
  // Parsed JSON has no inherited members: `for in` sees its own ones and makes no list of them.
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
