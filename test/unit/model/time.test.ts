import { describe, expect, it } from 'vitest';
import {
  isExpired,
  latestUnixMs,
  parseDuration,
  parseTime,
  renderTime,
  type UnixMillis,
} from '../../../shared/model/time.ts';

it('renderTime writes what Date writes, in any order of times', () => {
  const times = [0, 7, 999, 1_000, 1_050, 999, -1, -1_000, 1.5, Date.UTC(2028, 1, 29), latestUnixMs];
  for (const ms of [...times, ...times.toReversed()])
    expect(renderTime(ms as UnixMillis)).toBe(new Date(ms).toISOString());
  expect(() => renderTime(Number.NaN as UnixMillis)).toThrow(RangeError);
});

describe('parseTime', () => {
  it.each([
    ['2026-11-20T10:00:00Z', '2026-11-20T10:00:00.000Z'],
    ['2026-11-20T10:00:00.123456Z', '2026-11-20T10:00:00.123Z'],
    ['2026-11-20T12:30:00+02:30', '2026-11-20T10:00:00.000Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['2026-11-20t10:00:00z', '2026-11-20T10:00:00.000Z'],
    ['2026-11-20T23:59:59+23:59', '2026-11-20T00:00:59.000Z'],
    // Leap seconds: Unix time has none, so each is the second after it.
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2017-01-01T08:59:60+09:00', '2017-01-01T00:00:00.000Z'],
  ])('reads %s', (text, rendered) => {
    expect(renderTime(parseTime(text) as UnixMillis)).toBe(rendered);
  });

  it.each([
    ...['', 'yesterday', '2026-11-20', '2026-11-20T10:00:00', '2026-02-30T00:00:00Z', '2026-11-20T24:00:00Z'],
    ...['2026-11-20T10:60:00Z', '2026-11-20T10:00:60Z', '2017-01-01T00:59:60+09:00', '2026-00-10T10:00:00Z'],
    ...['2026-11-20T10:00:00+24:00', '2026-11-20T10:00:00+1000', '2026-11-20 10:00:00Z'],
    ...['２026-11-20T10:00:00Z', '1969-12-31T23:59:59Z', '2026-11-20T10:00:00Z '],
  ])('refuses %j', (text) => {
    expect(parseTime(text)).toBeNull();
  });
});

describe('isExpired', () => {
  it.each([
    [1_000, 999, false],
    [1_000, 1_000, true],
    [1_000, 1_001, true],
    [null, 1_000, false],
  ])('expiry at %j, seen at %j: %j', (expiresAtMs, nowMs, expired) => {
    expect(isExpired({ expiresAtMs: expiresAtMs as UnixMillis | null }, nowMs as UnixMillis)).toBe(expired);
  });
});

describe('parseDuration', () => {
  it.each([
    ['90s', 90_000],
    ['15m', 900_000],
    ['24h', 86_400_000],
    ['30d', 2_592_000_000],
  ])('reads %s', (text, durationMs) => {
    expect(parseDuration(text)).toBe(durationMs);
  });

  it.each(['', '0h', '-1h', '1.5h', '1w', '24', 'h', ' 24h', '99999999999s'])('refuses %j', (text) => {
    expect(parseDuration(text)).toBeNull();
  });
});
