import type { Database } from '../../control-plane/base/database.ts';
import { repeat } from '../../shared/runtime/repeat.ts';
import { call } from '../support/base/http-client.ts';

/** When work got through. */
export interface ProgressWatch {
  /** Monotonic; the last time. */
  readonly lastMs: number;
  /** The longest time without any, of those that ended after `sinceMs`. */
  longestGapMs(sinceMs: number): number;
}

export class Progress implements ProgressWatch {
  readonly #times: number[] = [performance.now()];

  note(): void {
    this.#times.push(performance.now());
  }

  get lastMs(): number {
    return this.#times.at(-1) ?? 0;
  }

  longestGapMs(sinceMs: number): number {
    return this.#times.reduce(
      (longest, atMs, n) =>
        atMs < sinceMs ? longest : Math.max(longest, atMs - (this.#times[n - 1] ?? atMs)),
      0,
    );
  }
}

const lookMs = 50;

/** Whether records arrive, seen from the database. */
export function watchRecords(sql: Database): ProgressWatch & { stop(): Promise<void> } {
  const progress = new Progress();
  let position = 0;
  const running = repeat(async () => {
    const rows = await sql<{ position: number }[]>`
      SELECT coalesce(max(position), 0) AS position FROM records`.catch(() => []);
    const now = rows[0]?.position ?? position;
    if (now > position) progress.note();
    position = now;
    return lookMs;
  });
  return {
    get lastMs() {
      return progress.lastMs;
    },
    longestGapMs: (sinceMs) => progress.longestGapMs(sinceMs),
    stop: running.stop,
  };
}

/** Synchronous replication loses nothing, so no control plane may say that history went back. */
export function watchHistory(controlPlanes: readonly string[]): {
  readonly regressions: readonly string[];
  stop(): Promise<void>;
} {
  const regressions: string[] = [];
  const running = repeat(async () => {
    for (const origin of controlPlanes) {
      const reply = await call(`${origin}/readyz`).catch(() => null);
      const history = reply?.body?.history;
      if (history !== undefined && history.state !== 'whole')
        regressions.push(`${origin} says that history went back: ${JSON.stringify(history)}`);
    }
    return 500;
  });
  return { regressions, stop: running.stop };
}
