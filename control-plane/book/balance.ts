import { idTime } from '../../shared/model/ids.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, moneyKinds } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';

/** A current window whose units are not all where the ledger says, in requests or micro-USD. */
export interface Imbalance {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  /** All units given out, as the ledger has it. */
  readonly leased: number;
  /** All units that somebody has. */
  readonly parts: number;
  /** What of them is where (docs/operate/money-book.md). */
  readonly lease: number;
  readonly used: number;
  readonly approval: number;
  readonly hold: number;
  readonly overrun: number;
  /** Of a wallet as a whole: what its lanes have given out. */
  readonly lanes: number;
}

/** Older approvals hold money of ended windows, or of totals, of which they count as nothing here. */
const approvalsOfMs = 32 * dayMs;

/**
 * The windows that are out of balance, the worst first, at most `max`; `total` counts all. `leased` has to be
 * at least what has a row: less would be lent twice. What the control plane took for itself, and what was
 * left of leases that went with their holders, has none. Of a wallet as a whole both are equal.
 *
 * One statement, so of one moment. Windows that have ended are not judged: nothing comes back to them.
 */
export async function findImbalances(
  sql: Database | Transaction,
  nowMs: UnixMillis,
  max: number,
): Promise<{ readonly total: number; readonly windows: readonly Imbalance[] }> {
  const rows = await sql<(Imbalance & { readonly total: number })[]>`
    WITH placed (counter, window_name, starts_at_ms, ends_at_ms, place, units) AS (
      SELECT counter, window_name, starts_at_ms, ends_at_ms, place, place_units FROM quota_leases l,
        LATERAL (SELECT coalesce(sum(p.units), 0)::bigint AS posted FROM lease_posts p WHERE p.lease_id = l.lease_id) p,
        LATERAL (VALUES ('lease', greatest(l.units - posted, 0)), ('used', l.used + least(l.units, posted)))
          AS v (place, place_units)
      UNION ALL
      SELECT counter, window_name, starts_at_ms, ends_at_ms, 'used', used FROM former_leases
      UNION ALL
      SELECT h->>'counter' COLLATE "C", h->>'window' COLLATE "C", (h->>'startsAtMs')::bigint, NULL, 'approval',
        (h->>'units')::bigint
      FROM approvals, jsonb_array_elements(holds) AS h WHERE due_at_ms IS NOT NULL AND holds <> '[]'
      UNION ALL
      SELECT h->>'counter' COLLATE "C", h->>'window' COLLATE "C", (h->>'startsAtMs')::bigint, NULL, 'used',
        coalesce(p.counts_micro_usd - p.overrun_micro_usd, (h->>'units')::bigint)
      FROM approvals a LEFT JOIN permit_outcomes p ON p.attestation_id = a.attestation_id COLLATE "C",
        jsonb_array_elements(a.holds) AS h
      WHERE a.status = 'used' AND a.approval_id >= ${`appr_${idTime(Math.max(0, nowMs - approvalsOfMs) as UnixMillis)}`}
      UNION ALL
      SELECT h->>'counter' COLLATE "C", h->>'window' COLLATE "C", (h->>'startsAtMs')::bigint, NULL, 'hold',
        p.counts_micro_usd
      FROM permit_outcomes p JOIN settlements s ON s.settlement_id = p.attestation_id COLLATE "default",
        jsonb_array_elements(s.held) AS h
      WHERE p.hold_status = 'open' AND NOT s.is_void
        AND split_part(h->>'counter', ':', 1) = ANY(${[...moneyKinds]}::text[])
      UNION ALL
      SELECT h->>'counter' COLLATE "C", h->>'window' COLLATE "C", (h->>'startsAtMs')::bigint, NULL, 'overrun',
        overrun_micro_usd
      FROM permit_outcomes, jsonb_array_elements(overrun_from) AS h WHERE overrun_micro_usd > 0
      UNION ALL
      SELECT (split_part(counter, ':', 1) || ':' || split_part(counter, ':', 2)) COLLATE "C", window_name, starts_at_ms,
        ends_at_ms, 'lanes', leased
      FROM quota_windows WHERE counter LIKE 'wallet!_%:%:%' ESCAPE '!'
    ), summed AS (
      SELECT counter, window_name, starts_at_ms, max(ends_at_ms) AS known_end, sum(units)::bigint AS parts,
        coalesce(sum(units) FILTER (WHERE place = 'lease'), 0)::bigint AS lease,
        coalesce(sum(units) FILTER (WHERE place = 'used'), 0)::bigint AS used,
        coalesce(sum(units) FILTER (WHERE place = 'approval'), 0)::bigint AS approval,
        coalesce(sum(units) FILTER (WHERE place = 'hold'), 0)::bigint AS hold,
        coalesce(sum(units) FILTER (WHERE place = 'overrun'), 0)::bigint AS overrun,
        coalesce(sum(units) FILTER (WHERE place = 'lanes'), 0)::bigint AS lanes,
        bool_or(place = 'lanes') AS is_wallet
      FROM placed GROUP BY counter, window_name, starts_at_ms
    )
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", coalesce(q.leased, 0) AS leased, parts, lease,
      used, approval, hold, overrun, lanes, count(*) OVER ()::int AS total
    FROM summed LEFT JOIN quota_windows q USING (counter, window_name, starts_at_ms)
    WHERE coalesce(q.ends_at_ms, known_end) > ${nowMs}::bigint
      AND CASE WHEN is_wallet THEN coalesce(q.leased, 0) <> parts ELSE coalesce(q.leased, 0) < parts END
    ORDER BY coalesce(q.leased, 0) - parts, counter, window_name, starts_at_ms LIMIT ${max}`;
  return { total: rows[0]?.total ?? 0, windows: rows.map(({ total: _, ...window }) => window) };
}
