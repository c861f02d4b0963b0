import { describe, expect, it } from 'vitest';
import { parseTime, renderTime, type UnixMillis } from '../../../shared/model/time.ts';
import { type WindowName, windowAt } from '../../../shared/quota/window.ts';

const at = (text: string) => parseTime(text) as UnixMillis;

describe('windowAt', () => {
  it.each<[WindowName, string, string, string]>([
    ['minute', '2026-11-20T10:07:59.999Z', '2026-11-20T10:07:00.000Z', '2026-11-20T10:08:00.000Z'],
    ['minute', '2026-11-20T10:08:00.000Z', '2026-11-20T10:08:00.000Z', '2026-11-20T10:09:00.000Z'],
    ['hour', '2026-11-20T10:59:59.999Z', '2026-11-20T10:00:00.000Z', '2026-11-20T11:00:00.000Z'],
    ['day', '2026-12-31T23:59:59.999Z', '2026-12-31T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
    ['day', '2016-12-31T23:59:59.999Z', '2016-12-31T00:00:00.000Z', '2017-01-01T00:00:00.000Z'],
    ['month', '2026-12-31T23:59:59.999Z', '2026-12-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
    ['month', '2027-01-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z', '2027-02-01T00:00:00.000Z'],
    ['month', '2027-02-28T12:00:00.000Z', '2027-02-01T00:00:00.000Z', '2027-03-01T00:00:00.000Z'],
    ['month', '2028-02-29T23:59:59.999Z', '2028-02-01T00:00:00.000Z', '2028-03-01T00:00:00.000Z'],
    ['month', '1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z', '1970-02-01T00:00:00.000Z'],
  ])('names the %s of %s', (name, now, startsAt, endsAt) => {
    const window = windowAt(name, at(now));
    expect(window.name).toBe(name);
    expect(renderTime(window.startsAtMs)).toBe(startsAt);
    expect(renderTime(window.endsAtMs)).toBe(endsAt);
  });
});
