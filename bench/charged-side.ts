import type { Program } from './programs.ts';
import type { Side } from './rounds.ts';

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
}

/**
 * A side that is charged all processor time of its programs, what `finish` takes included: its figure can be
 * sustained.
 */
export function chargedSide({ name, programs, drive, finish }: ChargedWork): Side {
  const cpuSeconds = () => programs.reduce((sum, program) => sum + program.cpuSeconds(), 0);
  return {
    name,
    measure: async (seconds) => {
      const cpuBefore = cpuSeconds();
      const { done, seconds: tookS } = await drive(seconds);
      const duringS = cpuSeconds() - cpuBefore;
      await finish?.();
      const totalS = cpuSeconds() - cpuBefore;
      return {
        perSecond: done / (tookS + totalS - duringS),
        perCpuSecond: done / totalS,
        coresBusy: duringS / tookS,
      };
    },
  };
}
