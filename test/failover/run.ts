import { randomInt } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Command } from 'commander';
import { whole } from '../support/base/whole-option.ts';
import { programsIn } from '../support/programs/programs.ts';
import { compilePrograms } from '../support/run/compile-programs.ts';
import { failover } from './failover.ts';

/**
 * `npm run failover`: the primary of a PostgreSQL under Patroni is killed and switched over while the
 * programs are under load. Ends with 1 where something was lost, doubled or over a cap, or where a check that
 * needs no database was refused.
 */
const options = new Command('npm run failover --')
  .description('Kills and switches over the primary of a PostgreSQL under Patroni, under load.')
  .option('--failovers <n>', 'every second one a switchover', whole(1, 100), 10)
  .option('--clients <n>', 'clients on loopback', whole(1, 200), 8)
  .option('--size <n>', 'requests and dollars under each cap', whole(30, 100_000), 60)
  .option('--seed <n>', 'printed, so that a run can be repeated', whole(0, 2 ** 32 - 1))
  .parse()
  .opts<{ failovers: number; clients: number; size: number; seed?: number }>();

const say = (line: string): void => console.log(line);
const folder = await compilePrograms();
try {
  const { violations } = await failover({
    ...options,
    programs: programsIn(folder),
    seed: options.seed ?? randomInt(2 ** 32),
    say,
  });
  for (const violation of violations.slice(0, 100)) say(`VIOLATION ${violation}`);
  if (violations.length > 0) {
    say(`\nFAILED: ${violations.length} violations.`);
    process.exitCode = 1;
  } else say('\nNothing was lost, doubled or over a cap, and no plain check was refused.');
} finally {
  rmSync(folder, { recursive: true, force: true });
}
