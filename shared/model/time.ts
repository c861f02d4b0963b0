import type { Branded } from './brand.ts';

/** Milliseconds since 1970-01-01T00:00:00Z. Wall clock: may jump; never used to measure a duration. */
export type UnixMillis = Branded<number, 'UnixMillis'>;

/** Whole seconds since 1970-01-01T00:00:00Z, as tokens carry them (RFC 7519 NumericDate). */
export type UnixSeconds = Branded<number, 'UnixSeconds'>;

/** Milliseconds since an arbitrary start. Never goes back: ages and deadlines are measured with it. */
export type MonotonicMillis = Branded<number, 'MonotonicMillis'>;

export const secondMs = 1_000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** The last moment that ISO 8601 with a four-digit year can hold. */
export const latestUnixMs = 253_402_300_799_999 as UnixMillis;

export const isUnixMillis = (value: unknown): value is UnixMillis =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= latestUnixMs;

/** ISO 8601 UTC with milliseconds, as every answer carries times (contract §12). */
export function renderTime(timeMs: UnixMillis): string {
  const ms = timeMs % secondMs;
  if (!Number.isInteger(ms) || ms < 0) return new Date(timeMs).toISOString();
  const atMs = timeMs - ms;
  if (lastSecond.atMs !== atMs)
    lastSecond = { atMs, text: new Date(atMs).toISOString().slice(0, -'000Z'.length) };
  return `${lastSecond.text}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`;
}

/** Of the last time: many times in a row are of one second, and then this is four times as fast. */
let lastSecond = { atMs: Number.NaN, text: '' };

export const renderOptionalTime = (timeMs: UnixMillis | null): string | null =>
  timeMs === null ? null : renderTime(timeMs);

const isoDateTime =
  /^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;

/**
 * Reads an RFC 3339 date-time; digits beyond the millisecond are cut. Unix time has no leap seconds: 23:59:60
 * UTC is the moment one second after 23:59:59, which is the first of the next day.
 * Returns null for anything else, also for dates that do not exist (30 February), for hour 24, and for second
 * 60 at another time of the day.
 */
export function parseTime(text: string): UnixMillis | null {
  const [, , second] = isoDateTime.exec(text) ?? [];
  if (second === undefined) return null;
  const isLeap = second === '60';
  const inTime = isLeap ? `${text.slice(0, 17)}59${text.slice(19)}` : text;
  const beforeMs = Date.parse(inTime.toUpperCase());
  const timeMs = isLeap ? beforeMs + secondMs : beforeMs;
  if (!isUnixMillis(timeMs) || (isLeap && timeMs % dayMs >= secondMs)) return null;
  // Date.parse rolls 30 February over into March, so the day must come out unchanged.
  const day = Number(text.slice(8, 10));
  const monthDays = new Date(Date.UTC(Number(text.slice(0, 4)), Number(text.slice(5, 7)), 0)).getUTCDate();
  return day <= monthDays ? timeMs : null;
}

export const toSeconds = (timeMs: UnixMillis): UnixSeconds => Math.floor(timeMs / secondMs) as UnixSeconds;

export const toMillis = (timeS: UnixSeconds): UnixMillis => (timeS * secondMs) as UnixMillis;

/** Whether it is expired: from `expiresAtMs` on, inclusive; never if that is null. */
export const isExpired = (
  { expiresAtMs }: { readonly expiresAtMs: UnixMillis | null },
  nowMs: UnixMillis,
): boolean => expiresAtMs !== null && nowMs >= expiresAtMs;

const durationUnits: Readonly<Record<string, number>> = { s: secondMs, m: minuteMs, h: hourMs, d: dayMs };

/**
 * Reads `<n>s`, `<n>m`, `<n>h` or `<n>d` (contract §3). Returns milliseconds, or null for anything else and
 * for zero.
 */
export function parseDuration(text: string): number | null {
  const match = /^([1-9]\d{0,9})([smhd])$/.exec(text);
  if (match === null) return null;
  const durationMs = Number(match[1]) * (durationUnits[match[2] ?? ''] ?? Number.NaN);
  return Number.isSafeInteger(durationMs) ? durationMs : null;
}
