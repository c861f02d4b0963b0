import { isInt64 } from './form.ts';
import { printedFunction } from './functions.ts';
import { conditionLimits } from './limits.ts';
import {
  compareText,
  Double,
  Duration,
  entryOf,
  Failure,
  isDouble,
  isInt,
  isMap,
  keysOf,
  kindOf,
  numberOf,
  type Outcome,
  sizeOf,
  Timestamp,
  toDouble,
  toInt,
  type Value,
} from './values.ts';
import type { StepBudget } from './variables.ts';

export const overBudget = new Failure('the conditions of this decision take too many steps');

/** Takes that many steps; false: there are not as many left. */
export function take(budget: StepBudget, steps: number): boolean {
  budget.left -= steps;
  return budget.left >= 0;
}
/** A function takes a step for each 64 characters begun. */
export const takeText = (budget: StepBudget, chars: number): boolean =>
  take(budget, Math.ceil(chars / conditionLimits.charsPerStep));
/** A comparison takes one for each 64 that both sides have. */
const takeCompared = (budget: StepBudget, chars: number): boolean =>
  take(budget, Math.floor(chars / conditionLimits.charsPerStep));

export const mismatch = (name: string, ...values: readonly unknown[]): Failure =>
  new Failure(`${printedFunction(name)} does not take ${values.map(kindOf).join(' and ')}`);
const overflow = (name: string): Failure => new Failure(`${printedFunction(name)} overflows`);

const intOf = (name: string, value: bigint): Outcome => (isInt64(value) ? toInt(value) : overflow(name));

/** Numbers compare across their types; values of unlike kinds are not equal. Failure: over the budget. */
function equals(left: unknown, right: unknown, budget: StepBudget): boolean | Failure {
  if (typeof left === 'string') {
    if (typeof right !== 'string' || left.length !== right.length) return false;
    return takeCompared(budget, left.length) ? left === right : overBudget;
  }
  if (left === right && !(left instanceof Double))
    return typeof left !== 'object' || left === null || equalsWhole(left, right, budget);
  if (typeof left !== 'object' && typeof right !== 'object') {
    // Beyond 2^53 an int is a bigint and a double a number: JavaScript compares them as they are.
    // biome-ignore lint/suspicious/noDoubleEquals: across number and bigint
    return isNumeric(left) && isNumeric(right) && left == right;
  }
  if (left instanceof Double || right instanceof Double) {
    const [a, b] = [
      left instanceof Double ? left.value : left,
      right instanceof Double ? right.value : right,
    ];
    // biome-ignore lint/suspicious/noDoubleEquals: across number and bigint
    return isNumeric(a) && isNumeric(b) && a == b;
  }
  return equalsWhole(left, right, budget);
}
const isNumeric = (value: unknown): boolean => typeof value === 'number' || typeof value === 'bigint';

function equalsWhole(left: unknown, right: unknown, budget: StepBudget): boolean | Failure {
  if (left === null || right === null) return left === right;
  if (Array.isArray(left)) {
    if (!Array.isArray(right) || left.length !== right.length) return false;
    for (let at = 0; at < left.length; at += 1) {
      if (!take(budget, 1)) return overBudget;
      const same = equals(left[at], right[at], budget);
      if (same !== true) return same;
    }
    return true;
  }
  if (left instanceof Timestamp || left instanceof Duration) {
    const isSameKind = kindOf(left) === kindOf(right);
    return isSameKind && left.ms === (right as Timestamp).ms && left.nanos === (right as Timestamp).nanos;
  }
  if (!isMap(left) || !isMap(right)) return false;
  const [size, other] = [sizeOf(left), sizeOf(right)];
  if (!take(budget, size + other)) return overBudget;
  if (size !== other) return false;
  for (const key of keysOf(left)) {
    const value = entryOf(right, key);
    const same = value === undefined ? false : equals(entryOf(left, key), value, budget);
    if (same !== true) return same;
  }
  return true;
}

/** Below, at or above zero; NaN: a NaN among them, which is neither. */
function order(name: string, left: Value, right: Value, budget: StepBudget): number | Failure {
  if (typeof left === 'string' && typeof right === 'string') {
    const length = Math.min(left.length, right.length);
    return takeCompared(budget, length) ? compareText(left, right) : overBudget;
  }
  if (isInt(left) && isInt(right)) return left < right ? -1 : left > right ? 1 : 0;
  if ((isInt(left) || isDouble(left)) && (isInt(right) || isDouble(right))) {
    const [a, b] = [numberOf(left), numberOf(right)];
    return a < b ? -1 : a > b ? 1 : a === b ? 0 : Number.NaN;
  }
  if (typeof left === 'boolean' && typeof right === 'boolean') return Number(left) - Number(right);
  const isTime = left instanceof Timestamp || left instanceof Duration;
  if (!isTime || kindOf(left) !== kindOf(right)) return mismatch(name, left, right);
  const { ms, nanos } = right as Timestamp;
  return left.ms === ms ? left.nanos - nanos : left.ms - ms;
}

type Binary = (left: Value, right: Value, budget: StepBudget) => Outcome;

const negative = ({ ms, nanos }: Duration): Duration =>
  nanos === 0 ? new Duration(-ms, 0) : new Duration(-ms - 1, 1_000_000 - nanos);

function sumOf(name: string, left: Timestamp | Duration, right: Duration | Timestamp): Outcome {
  const nanos = left.nanos + right.nanos;
  const ms = left.ms + right.ms + (nanos >= 1_000_000 ? 1 : 0);
  const rest = nanos % 1_000_000;
  const isTimestamp = left instanceof Timestamp !== right instanceof Timestamp;
  return (isTimestamp ? timestampOf(ms, rest) : durationOf(ms, rest)) ?? overflow(name);
}
/** Null: outside of the years 1 to 9999. */
export const timestampOf = (ms: number, nanos: number): Timestamp | null =>
  ms >= -62_135_596_800_000 && ms <= 253_402_300_799_999 ? new Timestamp(ms, nanos) : null;
/** Null: outside of 64 bits of nanoseconds, 292 years. */
export function durationOf(ms: number, nanos: number): Duration | null {
  const [max, maxNanos] = [9_223_372_036_854, 775_807];
  if (ms > max || (ms === max && nanos > maxNanos)) return null;
  return ms < -max - 1 || (ms === -max - 1 && nanos < 1_000_000 - maxNanos - 1)
    ? null
    : new Duration(ms, nanos);
}

/** Exact within 53 bits, else by the bigint. */
const arithmetic =
  (name: string, small: (a: number, b: number) => number, large: (a: bigint, b: bigint) => bigint): Binary =>
  (left, right) => {
    if (isInt(left) && isInt(right)) {
      if (typeof left === 'number' && typeof right === 'number') {
        const result = small(left, right);
        // A negative zero is no int.
        if (Number.isSafeInteger(result)) return result + 0;
      }
      return intOf(name, large(BigInt(left), BigInt(right)));
    }
    if (isDouble(left) && isDouble(right)) return toDouble(small(numberOf(left), numberOf(right)));
    return mismatch(name, left, right);
  };

const plus = arithmetic(
  '_+_',
  (a, b) => a + b,
  (a, b) => a + b,
);
const minus = arithmetic(
  '_-_',
  (a, b) => a - b,
  (a, b) => a - b,
);

const add: Binary = (left, right, budget) => {
  if (typeof left === 'string' && typeof right === 'string') {
    return takeText(budget, left.length + right.length) ? left + right : overBudget;
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    return take(budget, left.length + right.length) ? [...left, ...right] : overBudget;
  }
  if (left instanceof Duration && (right instanceof Duration || right instanceof Timestamp)) {
    return sumOf('_+_', left, right);
  }
  if (left instanceof Timestamp && right instanceof Duration) return sumOf('_+_', left, right);
  return plus(left, right, budget);
};

const subtract: Binary = (left, right, budget) => {
  if (left instanceof Timestamp && right instanceof Timestamp) {
    return sumOf('_-_', new Duration(left.ms, left.nanos), negative(right));
  }
  if ((left instanceof Timestamp || left instanceof Duration) && right instanceof Duration) {
    return sumOf('_-_', left, negative(right));
  }
  return minus(left, right, budget);
};

const divide: Binary = (left, right) => {
  if (isInt(left) && isInt(right)) {
    if (Number(right) === 0) return new Failure("'/' divides by zero");
    // Towards zero; the quotient alone would be rounded.
    if (typeof left === 'number' && typeof right === 'number') return (left - (left % right)) / right + 0;
    return intOf('_/_', BigInt(left) / BigInt(right));
  }
  if (isDouble(left) && isDouble(right)) return toDouble(numberOf(left) / numberOf(right));
  return mismatch('_/_', left, right);
};

const remainder: Binary = (left, right) => {
  if (!isInt(left) || !isInt(right)) return mismatch('_%_', left, right);
  if (Number(right) === 0) return new Failure("'%' divides by zero");
  if (typeof left === 'number' && typeof right === 'number') return (left % right) + 0;
  return intOf('_%_', BigInt(left) % BigInt(right));
};

export function negate(value: Value): Outcome {
  if (isInt(value)) return typeof value === 'number' ? 0 - value : intOf('-_', -value);
  return isDouble(value) ? toDouble(-numberOf(value)) : mismatch('-_', value);
}

function isIn(item: Value, range: Value, budget: StepBudget): Outcome {
  if (Array.isArray(range)) {
    for (const each of range) {
      if (!take(budget, 1)) return overBudget;
      const same = equals(item, each, budget);
      if (same !== false) return same;
    }
    return false;
  }
  const isKey = ['string', 'int', 'double', 'bool'].includes(kindOf(item));
  return isKey && isMap(range) ? entryOf(range, item) !== undefined : mismatch('@in', item, range);
}

const ordering =
  (name: string, holds: (order: number) => boolean): Binary =>
  (left, right, budget) => {
    const found = order(name, left, right, budget);
    return typeof found === 'number' ? holds(found) : found;
  };

export const binaryOperators: Readonly<Record<string, Binary>> = {
  '_==_': equals,
  '_!=_': (left, right, budget) => {
    const same = equals(left, right, budget);
    return typeof same === 'boolean' ? !same : same;
  },
  '_<_': ordering('_<_', (found) => found < 0),
  '_<=_': ordering('_<=_', (found) => found <= 0),
  '_>_': ordering('_>_', (found) => found > 0),
  '_>=_': ordering('_>=_', (found) => found >= 0),
  '_+_': add,
  '_-_': subtract,
  '_*_': arithmetic(
    '_*_',
    (a, b) => a * b,
    (a, b) => a * b,
  ),
  '_/_': divide,
  '_%_': remainder,
  '@in': isIn,
};

export function itemAt(operand: Value, key: Value): Outcome {
  if (Array.isArray(operand)) {
    const at = key instanceof Double ? key.value : key;
    if (typeof at !== 'number')
      return isInt(at) ? new Failure('the list has no such item') : mismatch('_[_]', operand, key);
    return at in operand && at >= 0 ? (operand[at] as Value) : new Failure('the list has no such item');
  }
  if (!isMap(operand)) return mismatch('_[_]', operand, key);
  const value = entryOf(operand, key);
  return value === undefined ? new Failure('the map has no such key') : value;
}
