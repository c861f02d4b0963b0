import { randomInt } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { isAllPassed, race } from '../race/race.ts';
import { ownRedis } from '../support/peers/redis.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

/**
 * `npm run race`, smaller, and alone: it keeps both cores busy. The seed of a race that failed is in its
 * output; `RACE_SEED` runs it again.
 */
describe('a race for limits', () => {
  it('passes none over four sidecars while everything breaks, uses each up while nothing does, and would notice', async () => {
    const redis = await ownRedis(await sharedService('redis-server'));
    onTestFinished(() => redis.stop());
    const said: string[] = [];
    const report = await race({
      programs: await bundledPrograms(),
      redis,
      seed: Number(process.env['RACE_SEED'] ?? randomInt(2 ** 32)),
      clients: 40,
      size: 60,
      passports: 18,
      faultSeconds: 12,
      // Each kind of lie several times.
      enough: { contested: 4, permits: 151, lies: 40 },
      say: (line) => said.push(line),
    });
    const course = said.join('\n');
    expect(report.violations, course).toEqual([]);
    expect(isAllPassed(report.naive), course).toBe(true);
    // The race took place: caps were reached in both rounds, and keys were replayed.
    expect(report.permits.calm, course).toBeGreaterThan(200);
    expect(report.permits.faults, course).toBeGreaterThan(150);
    expect(report.contested, course).toBeGreaterThan(3);
    expect(report.replayedKeys, course).toBeGreaterThan(8);
    expect(isAllPassed(report.settledTwice), course).toBe(true);
    for (const end of ['settled', 'released', 'expired', 'refunded', 'extended'])
      expect(report.ends.get(end) ?? 0, course).toBeGreaterThan(0);
    expect(report.lies, course).toBeGreaterThan(39);
    expect(report.frozen.spans, course).toBeGreaterThan(1);
    expect(report.frozen.blocks, course).toBeGreaterThan(0);
  }, 1_200_000);
});
