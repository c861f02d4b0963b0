import { ask } from './client.ts';
import { readAll } from './read-all.ts';

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
  readonly stopped_at: string | null;
  readonly lag_ms: number;
  readonly changes_behind: number;
  readonly clock_offset_ms: number;
  /** Of a minute lately; null: not known. */
  readonly decision_times: {
    readonly decisions: number;
    readonly p50_ms: number | null;
    readonly p99_ms: number | null;
  } | null;
}

/**
 * One limit in its window of now. Numbers are null where it is counted for each passport and none was named.
 */
export interface LimitUsage {
  readonly of: 'gate' | 'passport';
  readonly per: 'gate' | 'passport';
  readonly unit: 'requests' | 'usd';
  readonly window: 'minute' | 'hour' | 'day' | 'month';
  readonly limit: number;
  readonly used: number | null;
  readonly leased: number | null;
  readonly remaining: number | null;
  readonly ends_at: string;
}

export const statistics = {
  decisions: (query: { readonly step: DecisionStatistics['step']; readonly gate_id?: string }) =>
    ask<DecisionStatistics>({ method: 'GET', path: '/v1/statistics/decisions', query }),
  usage: (gateId: string, passportId?: string) =>
    ask<{ readonly limits: readonly LimitUsage[] }>({
      method: 'GET',
      path: `/v1/gates/${encodeURIComponent(gateId)}/usage`,
      query: { passport_id: passportId },
    }),
  /** Those last heard of first. */
  sidecars: async () => {
    const { items } = await readAll<Sidecar>('/v1/sidecars');
    return { items: items.toSorted((one, other) => other.last_seen_at.localeCompare(one.last_seen_at)) };
  },
};
