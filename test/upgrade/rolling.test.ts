import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabaseServer, testDatabaseServer } from '../support/database/postgres.ts';
import { ownRedis, type TestRedis } from '../support/peers/redis.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';
import { releaseBefore, releasedPrograms } from './released-programs.ts';
import { killed, noticed, rollingUpgrade, type Step, thereAndBack } from './rolling.ts';

/**
 * `npm run upgrade-test`, smaller. The seed of a run that failed is in its output; with `UPGRADE_SEED` it is
 * the same again.
 */
describe(`${releaseBefore.version} and this version under load`, () => {
  let old: Programs;
  let redis: TestRedis;
  let database: TestDatabaseServer;
  beforeAll(async () => {
    old = await releasedPrograms(releaseBefore, (line) => console.log(line));
    redis = await ownRedis(await sharedService('redis-server'));
  }, 1_200_000);
  afterAll(() => redis?.stop());

  async function run(steps: readonly Step[]) {
    database = await testDatabaseServer();
    const said: string[] = [];
    try {
      const report = await rollingUpgrade({
        programs: { old, new: await bundledPrograms() },
        databaseUrl: database.url,
        redisUrl: redis.url,
        seed: Number(process.env['UPGRADE_SEED'] ?? randomInt(2 ** 32)),
        clients: 8,
        size: 500,
        settleMs: 300,
        steps,
        say: (line) => said.push(line),
      });
      expect(noticed(report), said.join('\n')).toEqual([]);
      expect(report.figures['permits'], said.join('\n')).toBeGreaterThan(200);
      expect(report.figures['changes made'], said.join('\n')).toBeGreaterThan(20);
    } finally {
      await database.stop();
    }
  }

  it(
    'replace each other, there and back, and nobody is refused, nothing lost, doubled or late',
    () => run(thereAndBack),
    600_000,
  );

  it(
    'ship the spool of a sidecar of the other version that was killed',
    () => run(killed.slice(0, 3)),
    600_000,
  );
});
