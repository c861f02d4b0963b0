import { onlyPermits } from './permits.ts';
import type { Program } from './programs.ts';
import type { Side } from './rounds.ts';
import { connectionsUsual, type Driven } from './wrk.ts';

/** A server under load. */
export interface ChargedWork {
  readonly name: string;
  /** All that work for it on the measured core. */
  readonly programs: readonly Program[];
  readonly drive: (seconds: number) => Promise<Driven>;
  /** Completes work left after a measurement; null: there is none. */
  readonly finish: (() => Promise<void>) | null;
  /** Decisions under way when the generator ends; default 64. */
  readonly underWayMax?: number;
}

/**
 * Per request: an occasional warning stays below, a line per request does not. No other side pays for a log,
 * and this process, which reads it, takes time from the generator.
 */
const writtenBytesEachMax = 10;
/** About the 64 requests that the generator leaves unanswered at its end: Cerbos writes two lines each. */
const writtenBytesAtEndMax = 64 * 4_096;

/**
 * A side charged with all processor time of its programs, `finish` included: its figure can be sustained.
 * Throws where they write a log of requests, and where a sidecar decides anything but PERMIT.
 */
export function chargedSide({
  name,
  programs,
  drive,
  finish,
  underWayMax = connectionsUsual,
}: ChargedWork): Side {
  const sumOf = (what: 'cpuSeconds' | 'writtenBytes') =>
    programs.reduce((sum, program) => sum + program[what](), 0);
  const charge = async (seconds: number) => {
    const [cpuBefore, writtenBefore] = [sumOf('cpuSeconds'), sumOf('writtenBytes')];
    const { done, seconds: tookS } = await drive(seconds);
    const duringS = sumOf('cpuSeconds') - cpuBefore;
    const written = sumOf('writtenBytes') - writtenBefore;
    if (written > done * writtenBytesEachMax + writtenBytesAtEndMax)
      throw new Error(`${name} wrote ${written} bytes about ${done} requests: no side may log them`);
    await finish?.();
    return { done, tookS, duringS, totalS: sumOf('cpuSeconds') - cpuBefore };
  };
  return {
    name,
    measure: async (seconds) => {
      const { done, tookS, duringS, totalS } = await onlyPermits({ name, programs, underWayMax }, () =>
        charge(seconds),
      );
      return {
        perSecond: done / (tookS + totalS - duringS),
        perCpuSecond: done / totalS,
        coresBusy: duringS / tookS,
      };
    },
  };
}
