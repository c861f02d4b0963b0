import { isInt64 } from './form.ts';
import { durationOf, mismatch, overBudget, takeText, timestampOf } from './operators.ts';
import {
  Duration,
  Failure,
  isDouble,
  isInt,
  numberOf,
  type Outcome,
  Timestamp,
  toDouble,
  toInt,
  type Value,
} from './values.ts';
import type { StepBudget } from './variables.ts';

type Conversion = (value: Value) => Outcome;

const unreadable = (name: string): Failure => new Failure(`${name}() cannot read that string`);

const bools: Readonly<Record<string, boolean>> = {
  ...{ true: true, True: true, TRUE: true, t: true, '1': true },
  ...{ false: false, False: false, FALSE: false, f: false, '0': false },
};
const toBool: Conversion = (value) => {
  if (typeof value === 'boolean') return value;
  if (typeof value !== 'string') return mismatch('bool', value);
  return Object.hasOwn(bools, value) ? (bools[value] as boolean) : unreadable('bool');
};

const convertInt: Conversion = (value) => {
  if (isInt(value)) return value;
  if (isDouble(value)) {
    const whole = Math.trunc(numberOf(value));
    const isWithin = whole > -(2 ** 63) && whole < 2 ** 63;
    return isWithin ? toInt(BigInt(whole)) : new Failure('int() overflows');
  }
  if (value instanceof Timestamp) return Math.floor(value.ms / 1000);
  if (typeof value !== 'string') return mismatch('int', value);
  const [, sign, digits] = /^([+-]?)0*(\d{1,19})$/.exec(value) ?? [];
  if (digits === undefined) return unreadable('int');
  const whole = BigInt(`${sign === '-' ? '-' : ''}${digits}`);
  return isInt64(whole) ? toInt(whole) : new Failure('int() overflows');
};

const convertDouble: Conversion = (value) => {
  if (isDouble(value)) return value;
  if (isInt(value)) return toDouble(Number(value));
  if (typeof value !== 'string') return mismatch('double', value);
  const isNumber = /^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|Infinity)$/.test(value);
  return isNumber || value === 'NaN' ? toDouble(Number(value)) : unreadable('double');
};

/** With three, six or nine digits of a second's fraction, or none. */
function fraction(ms: number, nanos: number): string {
  const digits = `${String(ms).padStart(3, '0')}${String(nanos).padStart(6, '0')}`;
  const short = digits.replace(/(?:000){1,3}$/, '');
  return short === '' ? '' : `.${short}`;
}
function printDuration({ ms, nanos }: Duration): string {
  const isNegative = ms < 0;
  const wholeMs = isNegative ? -ms - (nanos === 0 ? 0 : 1) : ms;
  const rest = isNegative && nanos !== 0 ? 1_000_000 - nanos : nanos;
  return `${isNegative ? '-' : ''}${Math.floor(wholeMs / 1000)}${fraction(wholeMs % 1000, rest)}s`;
}
const convertString: Conversion = (value) => {
  if (typeof value === 'string') return value;
  if (value instanceof Duration) return printDuration(value);
  if (value instanceof Timestamp) {
    const seconds = new Date(Math.floor(value.ms / 1000) * 1000).toISOString().slice(0, 19);
    return `${seconds}${fraction(((value.ms % 1000) + 1000) % 1000, value.nanos)}Z`;
  }
  if (isDouble(value)) return String(numberOf(value));
  return typeof value === 'boolean' || isInt(value) ? String(value) : mismatch('string', value);
};

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))$/;
const convertTimestamp: Conversion = (value) => {
  if (value instanceof Timestamp) return value;
  const tooFar = new Failure('timestamp() overflows');
  if (isInt(value)) return timestampOf(Number(value) * 1000, 0) ?? tooFar;
  if (typeof value !== 'string') return mismatch('timestamp', value);
  const found = rfc3339.exec(value);
  if (found === null) return unreadable('timestamp');
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found.slice(1, 7).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const isDate = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  const [offsetHours = 0, offsetMinutes = 0] = found.slice(9, 11).map((each) => Number(each ?? 0));
  const isTime = hour < 24 && minute < 60 && second < 60 && offsetHours < 24 && offsetMinutes < 60;
  if (!isDate || !isTime) return unreadable('timestamp');
  const offsetMs = (offsetHours * 60 + offsetMinutes) * 60_000 * (found[8] === '-' ? -1 : 1);
  const nanos = Number((found[7] ?? '').padEnd(9, '0'));
  return timestampOf(date.getTime() - offsetMs + Math.floor(nanos / 1e6), nanos % 1e6) ?? tooFar;
};

const unitNanos: Readonly<Record<string, bigint>> = {
  ...{ ns: 1n, us: 1000n, µs: 1000n, μs: 1000n, ms: 1_000_000n },
  ...{ s: 1_000_000_000n, m: 60_000_000_000n, h: 3_600_000_000_000n },
};
const convertDuration: Conversion = (value) => {
  if (value instanceof Duration) return value;
  if (typeof value !== 'string') return mismatch('duration', value);
  // A longer one says nothing more, and a bigint of many digits takes long.
  const whole =
    value.length > 128 ? null : /^([+-]?)(0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|[uµμm]s|[smh]))+)$/.exec(value);
  if (whole === null) return unreadable('duration');
  let nanos = 0n;
  for (const [, digits = '', unit = ''] of value.matchAll(/([\d.]+)(ns|[uµμm]s|[smh])/g)) {
    const [before = '', after = ''] = digits.split('.');
    const scale = unitNanos[unit] ?? 0n;
    nanos += BigInt(before === '' ? 0 : before) * scale;
    if (after !== '') nanos += (BigInt(after) * scale) / 10n ** BigInt(after.length);
  }
  if (whole[1] === '-') nanos = -nanos;
  if (!isInt64(nanos)) return new Failure('duration() overflows');
  const rest = ((nanos % 1_000_000n) + 1_000_000n) % 1_000_000n;
  return durationOf(Number((nanos - rest) / 1_000_000n), Number(rest)) ?? new Failure('duration() overflows');
};

const conversions: Readonly<Record<string, Conversion>> = {
  bool: toBool,
  int: convertInt,
  double: convertDouble,
  string: convertString,
  timestamp: convertTimestamp,
  duration: convertDuration,
};

/** The conversion of that name; undefined: it is none. */
export function conversionNamed(name: string): ((value: Value, budget: StepBudget) => Outcome) | undefined {
  const convert = Object.hasOwn(conversions, name) ? conversions[name] : undefined;
  if (convert === undefined) return undefined;
  return (value, budget) =>
    takeText(budget, typeof value === 'string' ? Math.max(value.length, 1) : 1) ? convert(value) : overBudget;
}
