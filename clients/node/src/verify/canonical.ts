/** A JSON object as it was parsed. */
export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Deeper than anything that the service signs; a cycle ends here too. */
const depthMax = 64;

/**
 * The RFC 8785 form (docs/verify.md, 3). Null for what has none: a lone surrogate, NaN, too deep a nesting.
 */
export const canonical = (value: unknown): string | null => formOf(() => write(value, 0));

/**
 * Of an object as `canonical`, and of the same without some of its members: half the work of writing it
 * twice.
 */
export const canonicalPair = (
  value: Json,
  left: readonly string[],
): { readonly whole: string; readonly rest: string } | null =>
  formOf(() => {
    const names = sortedNames(value);
    const all = names.map((name) => member(value, name, 0));
    const kept = all.filter((_, place) => !left.includes(names[place] ?? ''));
    return { whole: `{${all.join()}}`, rest: `{${kept.join()}}` };
  });

class NoForm extends Error {}

function formOf<Form>(make: () => Form): Form | null {
  try {
    return make();
  } catch (error) {
    if (error instanceof NoForm) return null;
    throw error;
  }
}

function write(value: unknown, depth: number): string {
  if (depth > depthMax) throw new NoForm();
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number' && Number.isFinite(value)) return `${value}`;
  if (typeof value === 'boolean' || value === null) return `${value}`;
  if (Array.isArray(value)) return `[${value.map((item) => write(item, depth + 1)).join()}]`;
  if (isObject(value))
    return `{${sortedNames(value)
      .map((name) => member(value, name, depth))
      .join()}}`;
  throw new NoForm();
}

/** The default order of sort is that of UTF-16 code units. */
const sortedNames = (value: Json): string[] => Object.keys(value).sort();

const member = (value: Json, name: string, depth: number): string =>
  `${quote(name)}:${write(value[name], depth + 1)}`;

/** Printable ASCII without quote and backslash needs no escapes, and has no surrogates. */
function quote(text: string): string {
  if (/^[ !#-[\]-~]*$/.test(text)) return `"${text}"`;
  if (!isWellFormed(text)) throw new NoForm();
  return JSON.stringify(text);
}

/** As `isWellFormed` of strings, which browsers have had only since 2023. */
const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text);

export const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', encode(text)));
}

/** `sha256:` and hex, as hashes are written here. */
export async function hashOf(text: string): Promise<string> {
  const bytes = [...(await sha256(text))].map((byte) => byte.toString(16).padStart(2, '0'));
  return `sha256:${bytes.join('')}`;
}

export const sha256Base64Url = async (text: string): Promise<string> => toBase64Url(await sha256(text));

export const toBase64Url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');

/** Null for what is no base64. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    // Another character, or a length that no bytes have.
    return null;
  }
}

/** Bytes of base64url without padding. Null unless it is the one spelling of them. */
export function fromBase64Url(text: unknown): Uint8Array<ArrayBuffer> | null {
  if (typeof text !== 'string' || !/^[\w-]*$/.test(text)) return null;
  const bytes = fromBase64(text.replaceAll('-', '+').replaceAll('_', '/'));
  return bytes !== null && toBase64Url(bytes) === text ? bytes : null;
}
