import { setTimeout as pause } from 'node:timers/promises';
import { call, type Reply } from './http-client.ts';

/** What a steady load was answered, by decision, reason or error code. */
export type Tally = Readonly<Record<string, number>>;

export interface SteadyLoad {
  /** What was answered since the last look. */
  take(): Tally;
  /** Resolves when every request is answered, to what was answered since the last look. */
  stop(): Promise<Tally>;
}

/**
 * An open loop: a request every `everyMs`, to each of these addresses in turn, whether or not those before it
 * are answered. At most 500 wait: a program that hangs is not buried.
 */
export function steadyLoad(options: {
  readonly urls: readonly string[];
  readonly key: string;
  readonly body: unknown;
  readonly everyMs: number;
}): SteadyLoad {
  const { urls, key, body, everyMs } = options;
  let counts: Record<string, number> = {};
  const waiting = new Set<Promise<void>>();
  let isStopped = false;

  const count = (said: string): void => {
    counts[said] = (counts[said] ?? 0) + 1;
  };
  const ask = async (url: string): Promise<void> => {
    const reply = await call(url, { key, body }).catch(() => null);
    count(reply === null ? 'no answer' : said(reply));
  };
  const take = (): Tally => {
    const taken = counts;
    counts = {};
    return taken;
  };

  const running = (async () => {
    const startedAtMs = performance.now();
    for (let n = 0; !isStopped; n++) {
      // By the clock, and not by the pauses: a machine that is late catches up.
      await pause(Math.max(0, startedAtMs + n * everyMs - performance.now()));
      const url = urls[n % urls.length];
      if (url === undefined || waiting.size >= 500) continue;
      const asking: Promise<void> = ask(url).finally(() => waiting.delete(asking));
      waiting.add(asking);
    }
    await Promise.all(waiting);
  })();

  return {
    take,
    stop: async () => {
      isStopped = true;
      await running;
      return take();
    },
  };
}

const said = ({ status, body }: Reply): string =>
  status === 200 ? (body.reason ?? body.decision) : (body.error?.code ?? String(status));
