import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { it } from 'vitest';
import { measureStall } from '../support/machine-stall.ts';
import { until } from '../support/until.ts';

it.runIf(existsSync('/proc/self/schedstat'))(
  'a machine is seen to stall where more is ready to run than it has processors',
  async () => {
    const stalledMs = measureStall();
    const spinning = Array.from({ length: 2 * availableParallelism() }, () =>
      spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
    );
    try {
      await until(() => stalledMs() > 200, { what: 'they wait for each other' });
    } finally {
      for (const child of spinning) child.kill('SIGKILL');
      await Promise.all(spinning.map((child) => child.exitCode ?? child.signalCode ?? once(child, 'exit')));
    }
  },
);
