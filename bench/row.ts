import type { LatencyTable } from './latency-table.ts';
import type { Table } from './table.ts';

export interface BenchOptions {
  /** Fewer and shorter rounds: for a look, not for a claim. */
  readonly isQuick: boolean;
  /** Progress, a line at a time. */
  readonly say: (line: string) => void;
}

export interface Row {
  readonly name: string;
  readonly describe: string;
  readonly run: (options: BenchOptions) => Promise<Table | LatencyTable>;
}
