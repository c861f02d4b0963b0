import { count } from './count.ts';

/** What one measurement of one side gave. */
interface Figure {
  /** Of its unit, by the clock on the wall: what the targets speak of. */
  readonly perSecond: number;
  /**
   * The same by the processor time it was charged: hardly moves when other programs disturb the machine, and
   * confirms the first.
   */
  readonly perCpuSecond: number;
  /**
   * Cores that the measured program kept busy: 1 on one core means that it was the limit, and not the
   * generator or the neighbours.
   */
  readonly coresBusy: number;
}

/** One contestant. */
export interface Side {
  readonly name: string;
  measure(seconds: number): Promise<Figure>;
}

/** Median and extremes of the rounds. */
export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/**
 * Measures all sides in every round, in the order A B, B A, A B, ...: a machine that grows slower or faster
 * with time then favours nobody. Returns the figures of each side by its name, one per round.
 */
export async function interleaved(
  sides: readonly Side[],
  options: { readonly rounds: number; readonly seconds: number; readonly say: (line: string) => void },
): Promise<Figures> {
  const figures = new Map<string, Figure[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < options.rounds; round += 1) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const figure = await side.measure(options.seconds);
      figures.get(side.name)?.push(figure);
      options.say(
        `round ${round + 1}/${options.rounds}  ${side.name}: ${count(figure.perSecond)}/s, ${count(figure.perCpuSecond)} per processor second`,
      );
    }
  }
  return figures;
}

export type Figures = ReadonlyMap<string, readonly Figure[]>;

export function summary(figures: readonly number[]): Summary {
  const sorted = figures.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return {
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    min: at(0),
    max: at(sorted.length - 1),
  };
}

/** Of each round with itself: what disturbed a whole round cancels out. */
export const ratios = (ours: readonly number[], theirs: readonly number[]): number[] =>
  ours.map((figure, round) => figure / (theirs[round] ?? Number.NaN));
