import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, describe, it } from 'vitest';
import { keepAwake } from '../../bench/awake.ts';
import { until } from '../support/until.ts';

/** Pids of the loops that this process has asked for. */
const loopsOf = (pid: number): readonly string[] =>
  readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').endsWith(`\0awake\0${pid}\0`);
    } catch {
      // It has ended meanwhile.
      return false;
    }
  });

describe('a bench', () => {
  let letSleep: () => void = () => undefined;
  afterEach(() => letSleep());

  it('keeps a core awake at the lowest priority, until it says so', async () => {
    letSleep = keepAwake([0]);
    await until(() => loopsOf(process.pid).length === 1, { what: 'one loop' });
    // proc(5): the policy is field 41; SCHED_IDLE is 5.
    const policyOf = (pid = '') => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[38];
    await until(() => policyOf(loopsOf(process.pid)[0]) === '5', { what: 'a loop of the lowest priority' });
    letSleep();
    await until(() => loopsOf(process.pid).length === 0, { what: 'the end of the loop' });
  });

  it('leaves no loop behind where it is killed', async () => {
    const url = new URL('../../bench/awake.ts', import.meta.url).href;
    const script = `import { keepAwake } from '${url}'; keepAwake([0]); setInterval(() => {}, 1_000);`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script]);
    const pid = child.pid ?? 0;
    await until(() => loopsOf(pid).length === 1, { what: 'its loop' });
    child.kill('SIGKILL');
    await once(child, 'exit');
    await until(() => loopsOf(pid).length === 0, { what: 'the end of its loop' });
  });
});
