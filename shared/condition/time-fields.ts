import { mismatch } from './operators.ts';
import { Duration, type Outcome, Timestamp, type Value } from './values.ts';

const dayMs = 86_400_000;

/** Of a time that is shifted by its zone, so that UTC's fields are local ones. All but the date from zero. */
const ofTimestamp: Readonly<Record<string, (local: Date) => number>> = {
  getFullYear: (local) => local.getUTCFullYear(),
  getMonth: (local) => local.getUTCMonth(),
  getDate: (local) => local.getUTCDate(),
  getDayOfMonth: (local) => local.getUTCDate() - 1,
  getDayOfWeek: (local) => local.getUTCDay(),
  getDayOfYear: (local) => {
    const newYear = new Date(local);
    newYear.setUTCMonth(0, 1);
    return Math.round((local.getTime() - newYear.getTime()) / dayMs);
  },
  getHours: (local) => local.getUTCHours(),
  getMinutes: (local) => local.getUTCMinutes(),
  getSeconds: (local) => local.getUTCSeconds(),
  getMilliseconds: (local) => local.getUTCMilliseconds(),
};
/** The whole duration in that unit; of milliseconds those above the second. */
const ofDuration: Readonly<Record<string, (ms: number) => number>> = {
  getHours: (ms) => Math.trunc(ms / 3_600_000),
  getMinutes: (ms) => Math.trunc(ms / 60_000),
  getSeconds: (ms) => Math.trunc(ms / 1000),
  getMilliseconds: (ms) => ms % 1000,
};

export function timeFieldNamed(
  name: string,
): ((value: Value, offsetAt: (ms: number) => number) => Outcome) | null {
  const field = Object.hasOwn(ofTimestamp, name) ? ofTimestamp[name] : undefined;
  if (field === undefined) return null;
  const inDuration = ofDuration[name];
  return (value, offsetAt) => {
    if (value instanceof Timestamp) return field(new Date(value.ms + offsetAt(value.ms)));
    if (!(value instanceof Duration) || inDuration === undefined) return mismatch(name, value);
    // Towards zero; a duration below zero is rounded down to its milliseconds.
    return inDuration(value.ms < 0 && value.nanos > 0 ? value.ms + 1 : value.ms) + 0;
  };
}
