import { count } from './rounds.ts';
import { lackOfRoom, lackOfRoomMeans, lacksRoom } from './shared-cache.ts';
import type { Judged } from './targets.ts';

/** A line of a table of waiting times: one kind of question. */
export interface LatencyLine {
  readonly what: string;
  readonly requests: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** What p99 is to stay below; null where the line is for orientation. */
  readonly target: { readonly name: string; readonly p99MsMax: number } | null;
  /** Anything else worth a column, such as how much there was to go through. */
  readonly remark: string;
}

export interface Distribution {
  readonly name: string;
  /** As `histogram.ts` counts. */
  readonly counts: ArrayLike<number>;
}

export interface LatencyTable {
  readonly kind: 'latency';
  /** The name on the command line. */
  readonly row: string;
  readonly title: string;
  readonly lines: readonly LatencyLine[];
  /** A request without work, sent in between: what the machine adds. */
  readonly floor?: LatencyLine;
  /** All times, for the chart; absent: it shows the lines. */
  readonly distributions?: readonly Distribution[];
  /** Query plans of the questions that matter. */
  readonly plans: readonly { readonly of: string; readonly text: string }[];
  readonly notes: readonly string[];
  /** Figures of targets that are not about the p99 of a line. */
  readonly judged?: readonly Judged[];
  /** Written by `runRows`: see sharedCacheReadNs. */
  readonly sharedReadNs?: { readonly before: number; readonly after: number };
}

/** The line of a kind of question whose requests took so long; at least one. */
export function latencyLine(
  timesMs: readonly number[],
  told: Pick<LatencyLine, 'what' | 'target' | 'remark'>,
): LatencyLine {
  const sorted = timesMs.toSorted((a, b) => a - b);
  // The smallest time that so many of the requests did not exceed.
  const percentile = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
  return {
    ...told,
    requests: sorted.length,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    maxMs: percentile(1),
  };
}

/** Above this p99 of a request without work, other programs are measured. */
const floorP99MsMax = 5;

/** Why times that are too long are not judged; null: they are. */
export function disturbanceOfTimes({ floor, sharedReadNs }: LatencyTable): string | null {
  if (floor !== undefined && floor.p99Ms > floorP99MsMax) return 'an answer without work took as long';
  const hadRoom = sharedReadNs === undefined || !lacksRoom(longer(sharedReadNs));
  return hadRoom ? null : lackOfRoom;
}

const longer = ({ before, after }: NonNullable<LatencyTable['sharedReadNs']>): number =>
  Math.max(before, after);

const verdict = (isMet: boolean, disturbance: string | null): string => {
  if (isMet) return 'met';
  return disturbance === null ? '**missed**' : `not judged: ${disturbance}`;
};

/** At most one line. */
function cacheNote({ sharedReadNs }: LatencyTable): readonly string[] {
  if (sharedReadNs === undefined) return [];
  const { before, after } = sharedReadNs;
  const read = `A read that only the cache can answer which all cores share took ${count(before)} ns before this row and ${count(after)} ns after it.`;
  return [lacksRoom(longer(sharedReadNs)) ? `- **Disturbed**: ${read} ${lackOfRoomMeans}` : `- ${read}`];
}

/** Times below ten milliseconds keep their decimals. */
export const milliseconds = (figure: number): string => figure.toFixed(figure < 10 ? 2 : 1);

export function latencyMarkdown(table: LatencyTable): string {
  const { floor } = table;
  const disturbance = disturbanceOfTimes(table);
  const header = ['what', 'requests', 'p50 ms', 'p99 ms', 'max ms', 'target', 'remark'];
  const rows = [...table.lines, ...(floor === undefined ? [] : [floor])].map(
    ({ what, requests, p50Ms, p99Ms, maxMs, target, remark }) => [
      what,
      String(requests),
      milliseconds(p50Ms),
      `**${milliseconds(p99Ms)}**`,
      milliseconds(maxMs),
      target === null
        ? ''
        : `${target.name}: ${target.p99MsMax} ${verdict(p99Ms <= target.p99MsMax, disturbance)}`,
      remark,
    ],
  );
  return [
    `# ${table.title}`,
    '',
    ...[header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`),
    '',
    ...cacheNote(table),
    ...table.notes.map((note) => `- ${note}`),
    '',
    ...table.plans.flatMap(({ of, text }) => [`## ${of}`, '', '```', text, '```', '']),
  ].join('\n');
}
