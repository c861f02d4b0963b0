import { type Contestant, mustPermit, mustStillPermit, sideOf } from './contestant.ts';
import { newFolder, removeFolder } from './folders.ts';
import { type Installation, install } from './installation.ts';
import { interleaved, type Side, warmUp } from './rounds.ts';
import type { BenchOptions } from './row.ts';
import { briefS } from './size.ts';
import { type Table, tableLine } from './table.ts';
import { lackOfWrk } from './wrk.ts';

/** Makes the servers of a row; all stop when the row ends, also by a failure. */
export interface Scene {
  /** For files. */
  readonly folder: string;
  readonly size: BenchOptions['size'];
  readonly say: (line: string) => void;
  /** `install`, stopped by itself. */
  readonly installed: (...options: Parameters<typeof install>) => Promise<Installation>;
  /** Called last first. */
  readonly atEnd: (stop: () => Promise<void>) => void;
}

/** A contestant whose measurement is more than a load. */
export interface Contender extends Contestant {
  /** Default: what `sideOf` makes of it. */
  readonly side?: (of: Side) => Side;
}

export interface Contest {
  /** Ours is the first. */
  readonly contenders: readonly Contender[];
  readonly skipped?: Table['skipped'];
  readonly notes?: readonly string[];
  /** Notes written after the load. */
  readonly afterwards?: () => readonly string[];
}

/** Servers under the load of wrk, in turns, after an uncounted round in which Node compiles. */
export async function contest(
  { size, say }: BenchOptions,
  about: {
    readonly row: string;
    readonly title: string;
    readonly unit?: string;
    readonly secondsEach?: number;
    /** Default 5. */
    readonly rounds?: number;
    readonly notes: readonly string[];
  },
  prepare: (scene: Scene) => Promise<Contest>,
): Promise<Table> {
  const rounds = { full: about.rounds ?? 5, quick: 2, brief: 1 }[size];
  const secondsEach = { full: about.secondsEach ?? 2, quick: 1, brief: briefS }[size];
  const { row, title, unit = 'requests/s' } = about;
  const base = { row, title, unit, rounds, secondsEach };
  const reason = lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder(row);
  const stops: (() => Promise<void>)[] = [];
  const atEnd = (stop: () => Promise<void>) => void stops.push(stop);
  const installed = async (...options: Parameters<typeof install>) => {
    const installation = await install(...options);
    atEnd(() => installation.stop());
    return installation;
  };
  try {
    const {
      contenders,
      skipped = [],
      notes = [],
      afterwards,
    } = await prepare({ folder, size, say, installed, atEnd });
    for (const contender of contenders) await mustPermit(contender);
    const sides = contenders.map((contender) => contender.side?.(sideOf(contender)) ?? sideOf(contender));
    await warmUp(sides, { size, seconds: secondsEach });
    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    for (const contender of contenders) await mustStillPermit(contender);
    const ours = contenders[0]?.name ?? '';
    const lines = contenders.map((contender) => tableLine(contender, figures, ours));
    return {
      ...base,
      lines,
      skipped,
      notes: [...generatorNotes, ...about.notes, ...notes, ...(afterwards?.() ?? [])],
    };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    removeFolder(folder);
  }
}

const generatorNotes = [
  'wrk, one thread, 64 kept connections, closed loop, on the other core, together with the control plane and PostgreSQL at a lower priority.',
  'Records that the sidecar has not shipped when its time is over are shipped and committed then, and the processor time this takes is added to the time it is charged: its figure can be sustained.',
];
