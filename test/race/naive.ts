import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Cap } from './caps.ts';

const script = fileURLToPath(new URL('./naive-gate.ts', import.meta.url));
const startMsMax = 120_000;

export interface NaiveOptions {
  readonly redisUrl: string;
  readonly caps: readonly Cap[];
  /** They check and add at once: outcomes alone are naive. */
  readonly isAtomic: boolean;
}

/**
 * Processes that check, then add, on one shared counter. They end with `stop`, which throws where one has
 * ended before: what is not there passes no cap.
 */
export async function startNaiveGates(
  count: number,
  options: NaiveOptions,
): Promise<{
  readonly origins: readonly string[];
  readonly processes: readonly ChildProcess[];
  stop(): Promise<void>;
}> {
  const gates = await Promise.all(Array.from({ length: count }, () => startOne(options)));
  return {
    origins: gates.map(({ origin }) => origin),
    processes: gates.map(({ child }) => child),
    stop: async () => {
      await Promise.all(gates.map(({ stop }) => stop()));
    },
  };
}

async function startOne({ redisUrl, caps, isAtomic }: NaiveOptions) {
  const child = spawn(process.execPath, ['--import', 'tsx', script], {
    env: {
      PATH: process.env['PATH'] ?? '',
      REDIS_URL: redisUrl,
      ATOMIC: isAtomic ? '1' : '0',
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    // Sets come as sets.
    serialization: 'advanced',
  });
  child.send(caps);
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const port = await new Promise<string>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('a naive gate does not start')), startMsMax);
    let said = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8');
      const found = /^port (\d+)$/m.exec(said);
      if (found?.[1] === undefined) return;
      clearTimeout(late);
      resolve(found[1]);
    });
    child.once('exit', () => reject(new Error('a naive gate ended at its start')));
  });
  return {
    child,
    origin: `http://127.0.0.1:${port}`,
    stop: async () => {
      const { exitCode, signalCode } = child;
      child.kill('SIGKILL');
      await ended;
      if (exitCode !== null || signalCode !== null)
        throw new Error(`a naive gate ended by itself: ${exitCode ?? signalCode}`);
    },
  };
}
