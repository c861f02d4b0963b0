import type { DatabaseKind } from './database.ts';
import type { LatencyTable } from './latency-table.ts';
import type { Size } from './size.ts';
import type { Table } from './table.ts';
import type { TargetName } from './targets.ts';

export interface BenchOptions {
  readonly size: Size;
  /** Of the rows that can have either. */
  readonly database: DatabaseKind;
  /** What `npm run build` makes, or a folder like it. */
  readonly built: string;
  /** Progress, a line at a time. */
  readonly say: (line: string) => void;
}

/** What a row has to show. */
export type Measured = Table | LatencyTable;

export interface Row {
  /** The name on the command line. */
  readonly name: string;
  readonly describe: string;
  /** Targets that it decides on. */
  readonly targets: readonly TargetName[];
  /** Duration on a quiet machine of two cores. */
  readonly seconds: { readonly full: number; readonly quick: number };
  /** Runs only by name: always, or with --quick, whose three minutes have no room for all rows. */
  readonly onlyByName?: 'always' | 'quick';
  /** Its cores may sleep: a loop that keeps them awake (awake.ts) would disturb it. */
  readonly mayCoresSleep?: true;
  /** Several tables for variants of one question. */
  readonly run: (options: BenchOptions) => Promise<Measured | readonly Measured[]>;
}
