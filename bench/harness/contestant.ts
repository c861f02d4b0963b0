import { setTimeout as pause } from 'node:timers/promises';
import { chargedSide } from './charged-side.ts';
import type { Program } from './programs.ts';
import type { Side } from './rounds.ts';
import { drive, type Load, permitOf } from './wrk.ts';

/** A server under load, and its words in the table. */
export interface Contestant {
  readonly name: string;
  readonly program: Program;
  readonly load: Load;
  /** Completes work left after a measurement; null: there is none. */
  readonly finish: (() => Promise<void>) | null;
  readonly does: string;
  readonly doesNot: string;
  /** Null for ours. */
  readonly target: { readonly name: string; readonly wanted: number | null } | null;
}

export interface Answer {
  readonly body: string;
  readonly requestId: string;
}

const permitMsMax = 10_000;

/**
 * Throws unless the answer is a PERMIT, because refusing is fast. Retries while the program starts or the
 * gate is on its way to the sidecar.
 */
export async function mustPermit(of: Pick<Contestant, 'name' | 'load'>): Promise<Answer> {
  const deadline = performance.now() + permitMsMax;
  for (;;) {
    try {
      return await mustStillPermit(of);
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await pause(50);
  }
}

/** As `mustPermit` without retries. */
export async function mustStillPermit({ name, load }: Pick<Contestant, 'name' | 'load'>): Promise<Answer> {
  const { url, headers, body } = load.variety?.[0] ?? load;
  const answer = await fetch(url, { method: 'POST', headers, body });
  const text = await answer.text();
  if (answer.status !== 200 || !text.includes(permitOf(load)))
    throw new Error(`${name} answered ${answer.status} ${text}`);
  return { body: text, requestId: answer.headers.get('x-request-id') ?? '' };
}

export const sideOf = ({ name, program, load, finish }: Contestant): Side =>
  chargedSide({
    ...{ name, programs: [program], drive: (seconds) => drive(load, seconds), finish },
    ...(load.connections !== undefined && { underWayMax: load.connections }),
  });
