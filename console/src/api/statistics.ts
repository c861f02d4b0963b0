import { ask } from './client.ts';

/** The operations of statistics, which the generated client leaves out. */

export interface DecisionCount {
  readonly decision: string;
  readonly reason: string | null;
  readonly count: number;
}

export interface DecisionBucket {
  readonly starts_at: string;
  readonly counts: readonly DecisionCount[];
}

export interface DecisionStatistics {
  readonly starts_at: string;
  readonly ends_at: string;
  readonly step: 'minute' | 'hour' | 'day';
  readonly buckets: readonly DecisionBucket[];
}

export interface Sidecar {
  readonly sidecar_id: string;
  readonly version: string | null;
  readonly is_connected: boolean;
  readonly connected_at: string;
  readonly last_seen_at: string;
  readonly lag_ms: number;
  readonly changes_behind: number;
  readonly clock_offset_ms: number;
}

export const statistics = {
  decisions: (query: { readonly step: DecisionStatistics['step']; readonly gate_id?: string }) =>
    ask<DecisionStatistics>({ method: 'GET', path: '/v1/statistics/decisions', query }),
  sidecars: () => ask<{ readonly items: readonly Sidecar[] }>({ method: 'GET', path: '/v1/sidecars' }),
};
