import { randomInt } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Command } from 'commander';
import { textTable } from '../support/base/text-table.ts';
import { whole } from '../support/base/whole-option.ts';
import { testDatabaseServer } from '../support/database/postgres.ts';
import { ownRedis } from '../support/peers/redis.ts';
import { programsIn } from '../support/programs/programs.ts';
import { bundleForTests } from '../support/run/compile-programs.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';
import { releaseBefore, releasedPrograms } from './released-programs.ts';
import { backAgain, killed, noticed, rollingUpgrade, thereAndBack } from './rolling.ts';

/**
 * `npm run upgrade-test`: shows that an upgrade and the way back are not noticed. Ends with 1 where one was.
 */
const command = new Command('npm run upgrade-test --')
  .description(
    `Two control planes and three sidecars are replaced one by one under load: ${releaseBefore.version} by this version and back, control planes first and sidecars first. Then sidecars are killed on the way. Counts what was refused, lost, doubled or late.`,
  )
  .option('--rounds <n>', 'how often there and back, each with another seed', whole(1, 100), 1)
  .option('--seconds <n>', 'between two replacements', whole(1, 600), 5)
  .option('--clients <n>', 'clients on loopback', whole(1, 500), 24)
  .option('--size <n>', 'requests and dollars under each cap', whole(30, 100_000), 2_000)
  .option('--seed <n>', 'of the first round; printed, so that it can be repeated', whole(0, 2 ** 32 - 1));
const options = command
  .parse()
  .opts<{ rounds: number; seconds: number; clients: number; size: number; seed?: number }>();

const say = (line: string): void => console.log(line);
const old = await releasedPrograms(releaseBefore, say);
say('This version is built.');
const folder = await bundleForTests();
const redis = await ownRedis(await findDebianProgram('redis-server'));
let isNoticed = false;
try {
  const reports: Record<string, number>[] = [];
  const seed = options.seed ?? randomInt(2 ** 32);
  for (let round = 0; round < options.rounds; round++) {
    for (const steps of [[...thereAndBack, ...backAgain], killed]) {
      const database = await testDatabaseServer();
      const ofRound = (seed + round) % 2 ** 32;
      try {
        const report = await rollingUpgrade({
          programs: { old, new: programsIn(folder) },
          databaseUrl: database.url,
          redisUrl: redis.url,
          seed: ofRound,
          clients: options.clients,
          size: options.size,
          settleMs: options.seconds * 1_000,
          steps,
          say,
        });
        reports.push({ seed: ofRound, killed: steps === killed ? 1 : 0, ...report.figures });
        for (const line of noticed(report)) say(line);
        isNoticed ||= noticed(report).length > 0;
      } finally {
        await database.stop();
      }
    }
  }
  const names = [...new Set(reports.flatMap((report) => Object.keys(report)))];
  const table = names.map((name) => [name, ...reports.map((report) => String(report[name] ?? ''))]);
  say(`\n${textTable(table, 1).join('\n')}`);
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
if (isNoticed) process.exitCode = 1;
