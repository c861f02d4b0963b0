import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

interface IdleFiles {
  /** What puts cores to sleep: the name of a driver, or `none`. */
  readonly driver: string;
  /** Takes how many microseconds they may need to wake up. */
  readonly latency: string;
}

const idleFilesOfLinux: IdleFiles = {
  driver: '/sys/devices/system/cpu/cpuidle/current_driver',
  latency: '/dev/cpu_dma_latency',
};

/**
 * Keeps these cores awake until the returned function is called. A virtual core with nothing to do is given
 * back to its host, and on a host that many share it returns milliseconds late: a server that waited for its
 * client for a moment was seen to have a quarter of its core, and both sides of a ratio waited most of the
 * time.
 */
export function keepAwake(cores: readonly number[], files: IdleFiles = idleFilesOfLinux): () => void {
  return forbidSleep(files) ?? runLoops(cores);
}

/**
 * The kernel itself looks for work again and again, on all cores, as long as this file is open with 0 us in
 * it (Linux, "PM Quality Of Service Interface"): that takes nothing from a program that is ready. Null where
 * this process may not ask for it, and where no driver would heed it.
 */
function forbidSleep({ driver, latency }: IdleFiles): (() => void) | null {
  try {
    if (readFileSync(driver, 'utf8').trim() === 'none') return null;
    // Not 'w', which would make a file of this name where there is no such device, as in a container.
    const wish = openSync(latency, 'r+');
    writeSync(wish, new Int32Array([0]));
    return () => closeSync(wish);
  } catch {
    return null;
  }
}

/**
 * The loop of one core. It is a session of its own with the lowest share there is, beside which a program
 * has 98 % of the core (sched(7), "The autogroup feature"; where Linux has none, SCHED_IDLE alone sees to
 * it). Linux takes such a wish from others than root ten times a second at most, and a loop without it would
 * have half of the core: so it waits for its turn. It ends with the process that started it, however that
 * ends.
 */
const loop = `alive() { kill -0 "$1" 2>/dev/null; }
lowest() { [ ! -w /proc/$$/autogroup ] || echo 19 2>/dev/null >/proc/$$/autogroup; }
until lowest; do alive "$1" || exit; sleep 0.1; done
while alive "$1"; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done`;

function runLoops(cores: readonly number[]): () => void {
  const loops = cores.map((core): ChildProcess => {
    const sh = ['/bin/sh', '-c', loop, 'awake', String(process.pid)];
    const child = spawn('taskset', ['-c', String(core), 'chrt', '--idle', '0', ...sh], {
      stdio: 'ignore',
      detached: true,
    });
    // Where it cannot be started, the cores sleep as they do without it.
    child.on('error', () => undefined);
    child.unref();
    return child;
  });
  return () => {
    for (const child of loops) child.kill('SIGKILL');
  };
}
