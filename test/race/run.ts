import { randomInt } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Command } from 'commander';
import { whole } from '../support/base/whole-option.ts';
import { ownRedis } from '../support/peers/redis.ts';
import { type Program, type Programs, programsIn } from '../support/programs/programs.ts';
import { compilePrograms } from '../support/run/compile-programs.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';
import { isAllPassed, race } from './race.ts';

/**
 * `npm run race`: shows that no cap is ever passed, whatever breaks. Ends with 1 where one was, or where the
 * check could not have noticed.
 */
const command = new Command('npm run race --')
  .description(
    'Clients race for rate and money caps and for a tree of wallets over four sidecars, one of another account and two control planes, while things break, wallets are frozen and two foreign sidecars lie about their leases, some of them with money that is held, settled and refunded, and then over gates that check and then add, and over gates that settle twice.',
  )
  .option('--seconds <n>', 'how long things break', whole(5, 1_800), 60)
  .option('--clients <n>', 'clients on loopback', whole(1, 2_000), 200)
  .option('--passports <n>', 'in trees of wallets', whole(1, 20_000), 1_000)
  .option('--size <n>', 'requests and dollars under each cap', whole(30, 100_000), 300)
  .option(
    '--seed <n>',
    'of requests and faults; printed, so that a run can be repeated',
    whole(0, 2 ** 32 - 1),
  )
  .option('--export <folder>', 'keeps what was recorded, for agent-trust attestations replay');
const options = command.parse().opts<{
  seconds: number;
  clients: number;
  size: number;
  passports: number;
  seed?: number;
  export?: string;
}>();

/**
 * Everything that was started, to be ended also where somebody has seen enough; PostgreSQL and Redis end with
 * this process.
 */
const started: Program[] = [];
function tracked(programs: Programs): Programs {
  return {
    start: (args, env) => {
      const program = programs.start(args, env);
      started.push(program);
      return program;
    },
  };
}

const say = (line: string): void => console.log(line);
const folder = await compilePrograms();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    for (const program of started) if (program.isRunning) void program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
    process.exit(1);
  });
}
const redis = await ownRedis(await findDebianProgram('redis-server'));
try {
  const { violations, naive, settledTwice, contested, lies, frozen } = await race({
    programs: tracked(programsIn(folder)),
    redis,
    seed: options.seed ?? randomInt(2 ** 32),
    clients: options.clients,
    size: options.size,
    passports: options.passports,
    faultSeconds: options.seconds,
    // Each kind of lie several times.
    enough: { contested: 1, permits: 0, lies: 40 },
    say,
    ...(options.export === undefined ? {} : { exportTo: options.export }),
  });
  if (!isAllPassed(naive))
    say('\nFAILED: the naive gates did not pass both a wallet and a cap, so this race proves nothing.');
  if (!isAllPassed(settledTwice))
    say('\nFAILED: gates that settle twice passed not both, so this race says nothing about outcomes.');
  if (frozen.spans === 0 || frozen.blocks === 0)
    say('\nFAILED: no frozen wallet blocked anything, so this race does not show that it would be noticed.');
  if (violations.length > 0) say(`\nFAILED: ${violations.length} violations.\n${violations.join('\n')}`);
  if (contested === 0)
    say('\nFAILED: no window ran dry while things broke, so that was no race. Try a smaller --size.');
  if (lies === 0) say('\nFAILED: no holder lied, so this race does not show that it would be noticed.');
  const isShown =
    isAllPassed(naive) &&
    isAllPassed(settledTwice) &&
    contested > 0 &&
    lies > 0 &&
    frozen.spans > 0 &&
    frozen.blocks > 0;
  if (!isShown || violations.length > 0) process.exitCode = 1;
  else
    say(
      `\nNo cap was passed. Holders lied ${lies} times. The naive gates passed ${naive.length}, and those that settle twice ${settledTwice.length}.`,
    );
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
