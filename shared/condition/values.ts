import type { Kind } from './functions.ts';

/**
 * Values of conditions, made so that JSON needs no translation. An int is a number that is a safe integer, or
 * a bigint beyond; a double is any other number, or a `Double` where it happens to be a safe integer. Lists
 * are arrays; a map is an object of JSON or a `MapValue`.
 */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Double
  | Timestamp
  | Duration
  | MapValue
  | readonly unknown[]
  | Readonly<Record<string, unknown>>;

export class Double {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}
/** Milliseconds since 1970, and nanoseconds (0 to 999,999) above. */
export class Timestamp {
  readonly ms: number;
  readonly nanos: number;
  constructor(ms: number, nanos: number) {
    this.ms = ms;
    this.nanos = nanos;
  }
}
/** Rounded down to milliseconds, and nanoseconds (0 to 999,999) above. */
export class Duration {
  readonly ms: number;
  readonly nanos: number;
  constructor(ms: number, nanos: number) {
    this.ms = ms;
    this.nanos = nanos;
  }
}
/** A map of an expression. Keys are string, bool, or int as above. */
export class MapValue {
  readonly entries: ReadonlyMap<unknown, Value>;
  constructor(entries: ReadonlyMap<unknown, Value>) {
    this.entries = entries;
  }
}
/** An error while a condition is evaluated: a value that operators pass on. */
export class Failure {
  readonly detail: string;
  constructor(detail: string) {
    this.detail = detail;
  }
}
export type Outcome = Value | Failure;

export const isInt = (value: unknown): value is number | bigint =>
  typeof value === 'number' ? Number.isSafeInteger(value) : typeof value === 'bigint';
export const isDouble = (value: unknown): value is number | Double =>
  typeof value === 'number' ? !Number.isSafeInteger(value) : value instanceof Double;
export const toDouble = (value: number): number | Double =>
  Number.isSafeInteger(value) ? new Double(value) : value;
/** What it has to be within 64 bits; see `isInt64`. */
export const toInt = (value: bigint): number | bigint =>
  value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
/** Of an int or a double. */
export const numberOf = (value: number | bigint | Double): number =>
  value instanceof Double ? value.value : Number(value);
export const isMap = (value: unknown): value is MapValue | Readonly<Record<string, unknown>> =>
  kindOf(value) === 'map';

export function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'boolean':
      return 'bool';
    case 'string':
      return 'string';
    case 'bigint':
      return 'int';
    case 'number':
      return Number.isSafeInteger(value) ? 'int' : 'double';
    default:
      if (value === null) return 'null';
      if (Array.isArray(value)) return 'list';
      if (value instanceof Timestamp) return 'timestamp';
      if (value instanceof Duration) return 'duration';
      return value instanceof Double ? 'double' : 'map';
  }
}

/** Keys in the order in which they are gone through: that of RFC 8785 for JSON, of the source otherwise. */
export const keysOf = (map: MapValue | Readonly<Record<string, unknown>>): readonly Value[] =>
  map instanceof MapValue ? ([...map.entries.keys()] as Value[]) : Object.keys(map).sort();
export const sizeOf = (map: MapValue | Readonly<Record<string, unknown>>): number =>
  map instanceof MapValue ? map.entries.size : Object.keys(map).length;

/** Undefined: absent. A double finds the int that it equals. */
export function entryOf(map: MapValue | Readonly<Record<string, unknown>>, key: unknown): Value | undefined {
  if (map instanceof MapValue) return map.entries.get(keyOf(key));
  return typeof key === 'string' && Object.hasOwn(map, key) ? (map[key] as Value | undefined) : undefined;
}
export function keyOf(key: unknown): unknown {
  if (key instanceof Double) return key.value + 0;
  const isBeyond = typeof key === 'number' && Number.isInteger(key) && !Number.isSafeInteger(key);
  return isBeyond ? BigInt(key) : typeof key === 'number' ? key + 0 : key;
}

/** Text by code point: UTF-16 puts those above U+FFFF below U+E000. */
export function compareText(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  let at = 0;
  while (at < length && left.charCodeAt(at) === right.charCodeAt(at)) at += 1;
  if (at === length) return left.length - right.length;
  const [a, b] = [left.charCodeAt(at), right.charCodeAt(at)];
  return isSurrogate(a) === isSurrogate(b) ? a - b : isSurrogate(a) ? 1 : -1;
}
const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;

export function codePointsIn(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    const isPair = (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
    if (isPair) count -= 1;
  }
  return count;
}
