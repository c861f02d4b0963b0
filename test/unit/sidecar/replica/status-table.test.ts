import { describe, expect, it } from 'vitest';
import { digestWordsOf } from '../../../../shared/crypto/id-digest.ts';
import { limits } from '../../../../shared/model/limits.ts';
import { dayMs, type UnixMillis } from '../../../../shared/model/time.ts';
import { StatusTable } from '../../../../sidecar/replica/status-table.ts';
import { numbered } from '../../../support/data/model-service.ts';

const digest = (n: number) => digestWordsOf(numbered.passport(n));
const expiredByDay = 20_000;
const goneAtMs = expiredByDay * dayMs + limits.standingKeptMs;
const at = (timeMs: number) => timeMs as UnixMillis;
const until = (day: number | null) => ({ at: 0, expiredByDay: day });
/** More slots than so few entries can have. */
const allSlots = 10_000;

describe('standings', () => {
  it('holds a passport that had expired on the first day of all', () => {
    const standings = new StatusTable();
    standings.set(digest(1), 'suspended', until(0));
    expect(standings.get(digest(1), 0)).toBe('suspended');
  });

  it('forgets an expired passport an hour into the day that begins with it expired, and no sooner', () => {
    const standings = new StatusTable();
    standings.set(digest(1), 'revoked', until(expiredByDay));
    standings.set(digest(2), 'suspended', until(expiredByDay));
    standings.set(digest(3), 'revoked', until(null));
    standings.set(digest(4), 'revoked', until(expiredByDay + 1));
    standings.sweep(at(goneAtMs - 1), allSlots);
    expect(standings.size).toBe(4);
    standings.sweep(at(goneAtMs), allSlots);
    expect(standings.size).toBe(2);
    standings.sweep(at(goneAtMs + dayMs), allSlots);
    expect(standings.size).toBe(1);
    expect(standings.get(digest(3), 0)).toBe('revoked');
  });

  it('looks at a bounded number at a time and goes round', () => {
    const standings = new StatusTable();
    for (let n = 0; n < 100; n++)
      standings.set(digest(n), n % 2 === 0 ? 'revoked' : 'suspended', until(expiredByDay));
    standings.sweep(at(goneAtMs), 90);
    expect(standings.size).toBeGreaterThanOrEqual(10);
    expect(standings.size).toBeLessThan(100);
    for (let i = 0; i < 20; i++) standings.sweep(at(goneAtMs), 90);
    expect(standings.size).toBe(0);
    standings.set(digest(1), 'revoked', until(expiredByDay));
    for (let i = 0; i < 20; i++) standings.sweep(at(goneAtMs), 90);
    expect(standings.size).toBe(0);
  });
});
