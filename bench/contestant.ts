import { setTimeout as pause } from 'node:timers/promises';
import { chargedSide } from './charged-side.ts';
import type { Program } from './programs.ts';
import type { Side } from './rounds.ts';
import { drive, type Load } from './wrk.ts';

/** A server under load, with what the table says about it. */
export interface Contestant {
  readonly name: string;
  readonly program: Program;
  readonly load: Load;
  /** Work that a measurement leaves behind, brought to its end; null where an answer is the end of it. */
  readonly finish: (() => Promise<void>) | null;
  readonly does: string;
  readonly doesNot: string;
  /** Null for ours. */
  readonly target: { readonly name: string; readonly wanted: number | null } | null;
  /** What its answer to a permitted request holds; default: the decision PERMIT. */
  readonly permit?: string;
}

export interface Answer {
  readonly body: string;
  readonly requestId: string;
}

const permitMsMax = 10_000;

/**
 * A server that refuses is fast: what is measured must be a PERMIT. Waits for a program that is still
 * starting, or for a gate that is still on its way to the sidecar.
 */
export async function mustPermit({
  name,
  load,
  permit = '"decision":"PERMIT"',
}: Pick<Contestant, 'name' | 'load' | 'permit'>): Promise<Answer> {
  const deadline = performance.now() + permitMsMax;
  for (;;) {
    const { url, headers, body } = load.variety?.[0] ?? load;
    const answer = await fetch(url, { method: 'POST', headers, body }).catch(() => null);
    const text = (await answer?.text()) ?? 'nothing';
    if (answer?.status === 200 && text.includes(permit))
      return { body: text, requestId: answer.headers.get('x-request-id') ?? '' };
    if (performance.now() > deadline) throw new Error(`${name} answered ${answer?.status} ${text}`);
    await pause(50);
  }
}

export const sideOf = ({ name, program, load, finish }: Contestant): Side =>
  chargedSide({ name, programs: [program], drive: (seconds) => drive(load, seconds), finish });
