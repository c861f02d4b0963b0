import { describe, expect, it } from 'vitest';
import { limits } from '../../../../shared/model/limits.ts';
import type { UnixMillis } from '../../../../shared/model/time.ts';
import { makeStandings } from '../../../../sidecar/replica/standings.ts';
import { numbered } from '../../../support/model-service.ts';

const at = (timeMs: number) => timeMs as UnixMillis;
const goneAtMs = 5_000 + limits.standingKeptMs;

describe('standings', () => {
  it('holds the last that was set, and active for everybody else', () => {
    const standings = makeStandings();
    const id = numbered.passport(1);
    expect(standings.get(id)).toBe('active');
    standings.set(id, 'suspended', null);
    expect(standings.get(id)).toBe('suspended');
    standings.set(id, 'revoked', at(5_000));
    expect(standings.get(id)).toBe('revoked');
    expect(standings.size).toBe(1);
    standings.set(id, 'active', at(5_000));
    expect(standings.get(id)).toBe('active');
    expect(standings.size).toBe(0);
  });

  it('forgets an expired passport an hour after its expiry and no sooner', () => {
    const standings = makeStandings();
    standings.set(numbered.passport(1), 'revoked', at(5_000));
    standings.set(numbered.passport(2), 'suspended', at(5_000));
    standings.set(numbered.passport(3), 'revoked', null);
    standings.sweep(at(goneAtMs - 1), 10);
    expect(standings.size).toBe(3);
    standings.sweep(at(goneAtMs), 10);
    expect(standings.size).toBe(1);
    expect(standings.get(numbered.passport(3))).toBe('revoked');
  });

  it('looks at a bounded number at a time and goes round', () => {
    const standings = makeStandings();
    for (let n = 0; n < 100; n++)
      standings.set(numbered.passport(n), n % 2 === 0 ? 'revoked' : 'suspended', at(5_000));
    standings.sweep(at(goneAtMs), 30);
    expect(standings.size).toBe(70);
    for (let i = 0; i < 3; i++) standings.sweep(at(goneAtMs), 30);
    expect(standings.size).toBe(0);
    standings.set(numbered.passport(1), 'revoked', at(5_000));
    for (let i = 0; i < 2; i++) standings.sweep(at(goneAtMs), 30);
    expect(standings.size).toBe(0);
  });
});
