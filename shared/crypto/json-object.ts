import { isUtf8 } from 'node:buffer';
import { isLossless } from './json-losses.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object, neither null nor an array. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The JSON object that these bytes spell in UTF-8, or null. Refuses a byte order mark, and JSON that other
 * parsers read differently (json-losses.ts). `__proto__` is an ordinary member for JSON.parse, which does not
 * recurse.
 */
export function readJsonObject(bytes: Uint8Array): JsonObject | null {
  if (!isUtf8(bytes)) return null;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) && isLossless(text, value) ? value : null;
  } catch {
    return null;
  }
}
