import type { DatabaseKind } from './database.ts';
import type { LatencyTable } from './latency-table.ts';
import type { Table } from './table.ts';
import type { TargetName } from './targets.ts';

export interface BenchOptions {
  /** Fewer and shorter rounds: for a look, not for a claim. */
  readonly isQuick: boolean;
  /** Of the rows that can have either. */
  readonly database: DatabaseKind;
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
  /** How long it takes on a quiet machine of two cores, for the estimate of the time that is left. */
  readonly seconds: { readonly full: number; readonly quick: number };
  /**
   * Runs only where it is named: always, or with --quick, which is to be over in three minutes and would take
   * six with all rows.
   */
  readonly onlyByName?: 'always' | 'quick';
  /** Nothing keeps its cores awake (awake.ts): where that takes a loop, it would be in its way. */
  readonly mayCoresSleep?: true;
  /** Several tables where it asks the same of several things. */
  readonly run: (options: BenchOptions) => Promise<Measured | readonly Measured[]>;
}
