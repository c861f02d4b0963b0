import { onlyPermits } from './permits.ts';
import type { Program } from './programs.ts';
import type { Side } from './rounds.ts';
import { connectionsUsual } from './wrk.ts';

/** What a load generator has done. */
export interface Driven {
  /** Of the unit of the table: requests, or decisions where one request asks for several. */
  readonly done: number;
  /** From the first request to the last answer. */
  readonly seconds: number;
  /** Processor time of the generator itself. */
  readonly generatorCpuSeconds: number;
}

/** A server under load. */
export interface ChargedWork {
  readonly name: string;
  /** All that work for it on the measured core. */
  readonly programs: readonly Program[];
  readonly drive: (seconds: number) => Promise<Driven>;
  /** Work that a measurement leaves behind, brought to its end; null where an answer is the end of it. */
  readonly finish: (() => Promise<void>) | null;
  /** Things that the generator may have asked for without an answer when it ends; default 64 requests. */
  readonly underWayMax?: number;
}

/**
 * For each thing that was done: a warning now and then is less, a line in a log is more. A side that writes
 * one pays for what no other side does, and this process, which reads it, takes time from the generator.
 */
const writtenBytesEachMax = 10;
/** About the 64 requests that the generator leaves unanswered at its end: Cerbos writes two lines each. */
const writtenBytesAtEndMax = 64 * 4_096;

/**
 * A side that is charged all processor time of its programs, what `finish` takes included: its figure can be
 * sustained. Throws where they write as much as a log of requests, and where a sidecar among them decides
 * anything but PERMIT.
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
