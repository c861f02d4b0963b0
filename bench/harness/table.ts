import { count, type Figures, ratios, type Summary, summary } from './rounds.ts';
import { lackOfRoom, lackOfRoomMeans, lacksRoom } from './shared-cache.ts';
import type { Judged } from './targets.ts';

/** A line of a table: one side, and how ours compares with it. */
export interface TableLine {
  readonly side: string;
  /** What it does for the figure, and what it leaves out that another side does. */
  readonly does: string;
  readonly doesNot: string;
  readonly perSecond: Summary;
  readonly perCpuSecond: Summary;
  readonly coresBusy: Summary;
  /** Of a read from the shared cache before each of its rounds (shared-cache.ts). */
  readonly sharedReadNs: Summary;
  /** Ours divided by this side, round by round; null for our own line. */
  readonly versus: Versus | null;
}

interface Versus {
  /** The number in the table of targets, such as `P2`. */
  readonly target: string;
  /** Null: nothing is wanted of it, and it is for orientation. */
  readonly wanted: number | null;
  readonly ratio: Summary;
  readonly ratioByCpu: Summary;
}

/** The line of one side; `target` is null for our own. */
export function tableLine(
  side: {
    readonly name: string;
    readonly does: string;
    readonly doesNot: string;
    readonly target: { readonly name: string; readonly wanted: number | null } | null;
  },
  figures: Figures,
  ours: string,
): TableLine {
  const { name, does, doesNot, target } = side;
  const of = (who: string, what: 'perSecond' | 'perCpuSecond' | 'coresBusy' | 'sharedReadNs') =>
    (figures.get(who) ?? []).map((figure) => figure[what]);
  const ratioBy = (what: 'perSecond' | 'perCpuSecond') => summary(ratios(of(ours, what), of(name, what)));
  return {
    side: name,
    does,
    doesNot,
    perSecond: summary(of(name, 'perSecond')),
    perCpuSecond: summary(of(name, 'perCpuSecond')),
    coresBusy: summary(of(name, 'coresBusy')),
    sharedReadNs: summary(of(name, 'sharedReadNs')),
    versus:
      target === null
        ? null
        : {
            target: target.name,
            wanted: target.wanted,
            ratio: ratioBy('perSecond'),
            ratioByCpu: ratioBy('perCpuSecond'),
          },
  };
}

export interface Table {
  /** The name on the command line. */
  readonly row: string;
  readonly title: string;
  readonly unit: string;
  readonly rounds: number;
  readonly secondsEach: number;
  readonly lines: readonly TableLine[];
  /** Sides that could not take part, and why. */
  readonly skipped: readonly {
    readonly side: string;
    readonly reason: string;
    /** Installed but broken: the run fails. */
    readonly isFailure?: true;
  }[];
  /** What a reader must know to judge the figures. */
  readonly notes: readonly string[];
  /** Its lines have no scale in common. */
  readonly isUncharted?: true;
  /**
   * Load comes at a fixed rate, or from so few clients that they wait for more than a core, or the quickest
   * samples count alone: a side that does not keep its core busy is not disturbed.
   */
  readonly isLoadFixed?: true;
  /** Figures of targets that are not about the ratio of two sides. */
  readonly judged?: readonly Judged[];
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly node: string;
  readonly kernel: string;
  readonly version: string;
  readonly commit: string;
  readonly measuredAt: string;
}

/** What a table was measured on: its last line. */
export const machineLine = ({ cpu, cores, node, kernel, version, commit, measuredAt }: Machine): string =>
  `agent-trust ${version}, commit ${commit}; ${cpu}, ${cores} cores, Node ${node}, Linux ${kernel}, ${measuredAt}`;

const fixed = (figure: number): string => figure.toFixed(2);
const spread = (figures: Summary, text: (figure: number) => string): string =>
  `${text(figures.median)} (${range(figures, text)})`;
const range = ({ min, max }: Summary, text: (figure: number) => string): string =>
  `${text(min)} to ${text(max)}`;

export function markdown(table: Table): string {
  const header = [
    ...['side', `${table.unit} (spread)`, 'ours / this (spread)', 'target'],
    ...['per processor second', 'ours / this by processor', 'cores busy', 'does', 'does not'],
  ];
  const rows = table.lines.map((line) => {
    const { side, versus, perSecond, perCpuSecond, coresBusy, does, doesNot } = line;
    return [
      side,
      spread(perSecond, count),
      versus === null ? '' : `**${fixed(versus.ratio.median)}** (${range(versus.ratio, fixed)})`,
      targetCell(table, line),
      count(perCpuSecond.median),
      versus === null ? '' : spread(versus.ratioByCpu, fixed),
      fixed(coresBusy.median),
      does,
      doesNot,
    ];
  });
  return [
    `# ${table.title}`,
    '',
    `${table.rounds} rounds of ${table.secondsEach} s a side, in turns A B, B A; medians. Ratios are taken round by round; the absolute figures`,
    'are for orientation only.',
    '',
    ...[header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`),
    '',
    ...table.skipped.map(({ side, reason }) => `- Skipped: ${side}. ${reason}`),
    ...disturbances(table),
    ...table.notes.map((note) => `- ${note}`),
    '',
  ].join('\n');
}

/** Below this, something else than the measured program was the limit. */
const coresBusyMin = 0.9;

const hadNoCore = ({ coresBusy }: TableLine): boolean => coresBusy.median < coresBusyMin;
const hadNoCache = ({ sharedReadNs }: TableLine): boolean => lacksRoom(sharedReadNs.median);

function disturbances({ lines, isLoadFixed }: Table): string[] {
  const notes = lines
    .filter((line) => isLoadFixed !== true && hadNoCore(line))
    .map(
      ({ side, coresBusy }) =>
        `- **Disturbed**: ${side} had ${fixed(coresBusy.median)} of its core, so that its figure by the clock is too low. Other programs were running, or the load generator was the limit.`,
    );
  const [slowest] = lines.toSorted((a, b) => b.sharedReadNs.median - a.sharedReadNs.median);
  if (slowest === undefined) return notes;
  const read = `A read that only the cache can answer which all cores share took ${spread(slowest.sharedReadNs, count)} ns before the rounds of ${slowest.side}, and no longer before those of others.`;
  return [...notes, hadNoCache(slowest) ? `- **Disturbed**: ${read} ${lackOfRoomMeans}` : `- ${read}`];
}

function targetCell(table: Table, line: TableLine): string {
  const { versus } = line;
  if (versus === null) return '';
  const { target, wanted, ratio } = versus;
  if (wanted === null) return target;
  const judge = () => (ratio.median >= wanted ? 'met' : '**missed**');
  return `${target}: ${fixed(wanted)} ${disturbanceOf(table, line) === null ? judge() : '(disturbed, not judged)'}`;
}

/**
 * Why the ratio of this line is not judged; null: it is. It is too good where the other side lacked its core,
 * and too bad where ours did, so a target met then is met. Without room in the shared cache it is either.
 */
export function disturbanceOf({ lines, isLoadFixed }: Table, line: TableLine): string | null {
  const [ours = line] = lines;
  const { side, versus } = line;
  if (hadNoCache(ours) || hadNoCache(line)) return `beside ${side}: ${lackOfRoom}`;
  const isMet = versus !== null && versus.wanted !== null && versus.ratio.median >= versus.wanted;
  const isDisturbed = isLoadFixed !== true && (hadNoCore(line) || (!isMet && hadNoCore(ours)));
  return isDisturbed ? `beside ${side}: a side did not have its core` : null;
}
