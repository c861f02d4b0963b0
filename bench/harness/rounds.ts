import { stolenSeconds as stolenSecondsOfCores } from './cores.ts';
import { lacksRoom, sharedCacheReadNs } from './shared-cache.ts';
import type { Size } from './size.ts';

/** The two that the bench uses. */
const coreCount = 2;

/** What one measurement of one side gave. */
interface Figure {
  /** Of its unit, by the clock on the wall: what the targets speak of. */
  readonly perSecond: number;
  /** Per second of the processor time charged: other programs hardly change it. */
  readonly perCpuSecond: number;
  /** Cores that the measured program kept busy; 1 on one core: the program was the limit. */
  readonly coresBusy: number;
}

/** A figure, and the state of the machine. */
interface RoundFigure extends Figure {
  /** See sharedCacheReadNs; read just before. */
  readonly sharedReadNs: number;
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

/** The figures of all sides in one round, by name. */
interface Round {
  readonly figures: ReadonlyMap<string, RoundFigure>;
  /** Largest share of both cores that the host took during a side of this round. */
  readonly stolenShare: number;
}

/** Above this a round measures the neighbours of this machine. */
const stolenShareMax = 0.05;

interface RoundOptions {
  readonly rounds: number;
  readonly seconds: number;
  readonly say: (line: string) => void;
  /** Of all cores since the machine was started. Default: what Linux says. */
  readonly stolenSeconds?: () => number;
  /** Default: sharedCacheReadNs. */
  readonly sharedReadNs?: () => number;
}

/**
 * Uncounted, as long as a round: until then the compiler of Node works beside the program, on the core that
 * is measured.
 */
export async function warmUp(
  sides: readonly Side[],
  { size, seconds }: { readonly size: Size; readonly seconds: number },
): Promise<void> {
  if (size === 'brief') return;
  for (const side of sides) await side.measure(seconds);
}

/**
 * Measures all sides in every round, in the order A B, B A, A B, ..., so that drift of the machine favours no
 * side. Repeats rounds that lost more than `stolenShareMax` to the host, at most half as many as there are
 * rounds, and keeps those that lost least, whatever their figures. Returns one figure per side and round.
 */
export async function interleaved(sides: readonly Side[], given: RoundOptions): Promise<Figures> {
  // One round is a look at whether the sides run.
  const options = given.rounds === 1 ? { sharedReadNs: () => 0, ...given } : given;
  const { rounds, say } = options;
  const measured: Round[] = [];
  const left = () => rounds - measured.filter(({ stolenShare }) => stolenShare <= stolenShareMax).length;
  for (let round = 0; left() > 0 && round < 1.5 * rounds; round += 1) {
    const order = round % 2 === 0 ? sides : sides.toReversed();
    measured.push(await measureRound(order, { ...options, name: `round ${round + 1}/${rounds}` }));
  }
  const leastStolen = measured.toSorted((a, b) => a.stolenShare - b.stolenShare).slice(0, rounds);
  const kept = measured.filter((round) => leastStolen.includes(round));
  if (measured.length > rounds) say(`kept ${rounds} of ${measured.length} rounds: those the host left alone`);
  return new Map(sides.map(({ name }) => [name, kept.flatMap(({ figures }) => figures.get(name) ?? [])]));
}

async function measureRound(
  sides: readonly Side[],
  {
    name,
    seconds,
    say,
    stolenSeconds = stolenSecondsOfCores,
    sharedReadNs: readNs = sharedCacheReadNs,
  }: RoundOptions & { readonly name: string },
): Promise<Round> {
  const figures = new Map<string, RoundFigure>();
  let stolenShare = 0;
  for (const side of sides) {
    const sharedReadNs = readNs();
    const [stolenBefore, beganMs] = [stolenSeconds(), performance.now()];
    const figure = await side.measure(seconds);
    const share = (stolenSeconds() - stolenBefore) / (coreCount * ((performance.now() - beganMs) / 1_000));
    stolenShare = Math.max(stolenShare, share);
    figures.set(side.name, { ...figure, sharedReadNs });
    const host = share > stolenShareMax ? `; the host took ${Math.round(share * 100)} % of the machine` : '';
    const cache = lacksRoom(sharedReadNs) ? `; no room in the shared cache (${count(sharedReadNs)} ns)` : '';
    say(
      `${name}  ${side.name}: ${count(figure.perSecond)}/s, ${count(figure.perCpuSecond)} per processor second${host}${cache}`,
    );
  }
  return { figures, stolenShare };
}

export type Figures = ReadonlyMap<string, readonly RoundFigure[]>;

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

export interface MedianInterval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/**
 * The median, and the interval in which that of endless rounds lies with a probability of at least 95 %,
 * whatever their distribution is: between two of the figures, by the binomial distribution of how many lie
 * below it. With five figures or fewer it is their whole range, and the probability is lower.
 */
export function medianInterval(figures: readonly number[]): MedianInterval {
  const sorted = figures.toSorted((a, b) => a - b);
  const outside = outsideEachEnd(sorted.length);
  return {
    median: summary(sorted).median,
    low: sorted[outside] ?? Number.NaN,
    high: sorted[sorted.length - 1 - outside] ?? Number.NaN,
  };
}

/** The most figures that may lie beyond either end of the interval. */
function outsideEachEnd(figures: number): number {
  const beyondMax = 0.025;
  let [outside, term, beyond] = [0, 2 ** -figures, 2 ** -figures];
  // `beyond` is the probability that at most `outside` of the figures lie below the median.
  for (;;) {
    term *= (figures - outside) / (outside + 1);
    beyond += term;
    if (beyond > beyondMax || outside + 1 > (figures - 1) / 2) return outside;
    outside += 1;
  }
}

/** Figures below ten keep their decimals. */
export const count = (figure: number): string =>
  figure.toLocaleString('en-US', { maximumFractionDigits: figure < 10 ? 2 : 0 });
