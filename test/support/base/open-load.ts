import { setTimeout as pause } from 'node:timers/promises';

/** One answer to a request of a load. */
export interface LoadAnswer {
  /** A decision, or the code of an error. */
  readonly word: string;
  readonly attestationId: string | null;
  readonly hasRetryAfter: boolean;
}

export interface Load {
  /** By word. */
  readonly counts: Readonly<Record<string, number>>;
  /** From the request to its answer, by word. */
  readonly times: Readonly<Record<string, readonly number[]>>;
  /** Of PERMITs. */
  readonly permitIds: readonly string[];
  /** Answers `overloaded` that did not say when to come again. */
  readonly withoutRetryAfter: number;
  /** Until the last answer. */
  readonly tookMs: number;
}

/** Asks once; several answers come back where several checks went out together. */
export type AskLoad = () => Promise<readonly LoadAnswer[]>;

class Tally {
  readonly counts: Record<string, number> = {};
  readonly times: Record<string, number[]> = {};
  readonly permitIds: string[] = [];
  withoutRetryAfter = 0;
  readonly #beganAtMs = performance.now();

  async ask(ask: AskLoad): Promise<void> {
    const beganAtMs = performance.now();
    const answers = await ask();
    const tookMs = performance.now() - beganAtMs;
    for (const { word, attestationId, hasRetryAfter } of answers) {
      this.counts[word] = (this.counts[word] ?? 0) + 1;
      this.times[word] ??= [];
      this.times[word].push(tookMs);
      if (word === 'PERMIT' && attestationId !== null) this.permitIds.push(attestationId);
      if (word === 'overloaded' && !hasRetryAfter) this.withoutRetryAfter += 1;
    }
  }

  end(): Load {
    return { ...this, tookMs: performance.now() - this.#beganAtMs };
  }
}

/** A closed loop: so many clients that ask again as soon as they are answered. */
export async function closedLoad(
  ask: AskLoad,
  { clients, forMs }: { readonly clients: number; readonly forMs: number },
): Promise<Load> {
  const tally = new Tally();
  const endsAtMs = performance.now() + forMs;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (performance.now() < endsAtMs) await tally.ask(ask);
    }),
  );
  return tally.end();
}

/**
 * An open loop: asks at this rate, whether or not earlier requests are answered. A client that is late
 * catches up.
 */
export async function openLoad(
  ask: AskLoad,
  options: {
    readonly perSecond: number;
    readonly forMs: number;
    /** Beyond so many without an answer nothing is asked. */
    readonly openMax: number;
  },
): Promise<Load> {
  const { perSecond, forMs, openMax } = options;
  const tally = new Tally();
  const open = new Set<Promise<void>>();
  const beganAtMs = performance.now();
  for (let due = 0; ; ) {
    const sinceMs = performance.now() - beganAtMs;
    if (sinceMs >= forMs) break;
    for (; due < (sinceMs * perSecond) / 1_000; due++) {
      if (open.size >= openMax) continue;
      const asking: Promise<void> = tally.ask(ask).finally(() => open.delete(asking));
      open.add(asking);
    }
    await pause(5);
  }
  await Promise.all(open);
  return tally.end();
}

export const permitsPerSecond = ({ counts, tookMs }: Load): number =>
  ((counts['PERMIT'] ?? 0) * 1_000) / tookMs;

export function medianOf(times: readonly number[] | undefined): number {
  const sorted = (times ?? []).toSorted((one, other) => one - other);
  return sorted[sorted.length >> 1] ?? 0;
}
