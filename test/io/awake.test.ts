import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keepAwake } from '../../bench/harness/awake.ts';
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

const isOpen = (path: string): boolean =>
  readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      // The one that the list was read through.
      return false;
    }
  });

describe('a bench', () => {
  let folder = '';
  let files = { driver: '', latency: '' };
  let letSleep: () => void = () => undefined;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'agent-trust-awake-'));
    files = { driver: join(folder, 'current_driver'), latency: join(folder, 'cpu_dma_latency') };
    writeFileSync(files.driver, 'none\n');
  });
  afterEach(() => {
    letSleep();
    rmSync(folder, { recursive: true });
  });

  it('keeps cores awake by the kernel until it is told to stop', () => {
    writeFileSync(files.driver, 'haltpoll\n');
    writeFileSync(files.latency, '');
    letSleep = keepAwake([0], files);
    expect([...readFileSync(files.latency)]).toEqual([0, 0, 0, 0]);
    expect([isOpen(files.latency), loopsOf(process.pid)]).toEqual([true, []]);
    letSleep();
    letSleep = () => undefined;
    expect(isOpen(files.latency)).toBe(false);
  });

  it('keeps a core awake by a loop where the kernel has no such device, and creates no file', async () => {
    writeFileSync(files.driver, 'haltpoll\n');
    letSleep = keepAwake([0], files);
    await until(() => loopsOf(process.pid).length === 1, { what: 'one loop' });
    expect(existsSync(files.latency)).toBe(false);
  });

  it('keeps a core awake by a loop of the lowest priority where no driver puts cores to sleep', async () => {
    letSleep = keepAwake([0], files);
    await until(() => loopsOf(process.pid).length === 1, { what: 'one loop' });
    // proc(5): the policy is field 41; SCHED_IDLE is 5.
    const policyOf = (pid = '') => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[38];
    await until(() => policyOf(loopsOf(process.pid)[0]) === '5', { what: 'a loop of the lowest priority' });
    letSleep();
    await until(() => loopsOf(process.pid).length === 0, { what: 'the end of the loop' });
  });

  /** Keeps these cores awake until it is killed; `before`: in front of its command. */
  function startBench(cores: readonly number[], before: readonly string[] = []): ChildProcess {
    const url = new URL('../../bench/harness/awake.ts', import.meta.url).href;
    const script = `import { keepAwake } from '${url}'; keepAwake(${JSON.stringify([cores, files]).slice(1, -1)}); setInterval(() => {}, 1_000);`;
    const node = [process.execPath, '--import', 'tsx', '--input-type=module', '-e', script];
    const [command = '', ...words] = [...before, ...node];
    return spawn(command, words);
  }

  // sched(7): a kernel without autogroups has no such file.
  it.runIf(existsSync('/proc/self/autogroup'))(
    'makes way by all of its loops where Linux takes no more than ten such wishes a second',
    async () => {
      const unprivileged = process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-sys_admin'] : [];
      const child = startBench([0, 0, 0, 0], unprivileged);
      letSleep = () => void child.kill('SIGKILL');
      const shares = () =>
        loopsOf(child.pid ?? 0).map(
          (pid) => /nice \d+/.exec(readFileSync(`/proc/${pid}/autogroup`, 'utf8'))?.[0],
        );
      await until(() => shares().length === 4, { what: 'four loops' });
      await until(() => shares().every((share) => share === 'nice 19'), { what: 'the lowest share of each' });
    },
  );

  it('leaves no loop behind when it is killed', async () => {
    const child = startBench([0]);
    const pid = child.pid ?? 0;
    await until(() => loopsOf(pid).length === 1, { what: 'its loop' });
    child.kill('SIGKILL');
    await once(child, 'exit');
    await until(() => loopsOf(pid).length === 0, { what: 'the end of its loop' });
  });
});
