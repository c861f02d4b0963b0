import { must } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { latestUnixMs, type UnixMillis } from '../../shared/model/time.ts';
import {
  isSetAside,
  type Wallet,
  type WalletLimitName,
  walletLimitNames,
  walletLimits,
} from '../../shared/model/wallet.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { WalletUsage } from '../../shared/wire/api/wallet.ts';
import type { Database, Transaction } from '../base/database.ts';
import { walletCounter } from '../book/alert-on-spend.ts';
import { readOpenHolds } from '../book/spend-sums.ts';
import { findReservedChildren } from './wallet-store.ts';

interface LaneRow {
  readonly place: number;
  /** Null: of the wallet as a whole. */
  readonly lane: string | null;
  readonly givenOut: number;
  /** Units that sidecars hold and no record shows as used. */
  readonly leased: number;
}

/**
 * What is left of each limit of a wallet in its current window, from one snapshot. Takes and locks nothing.
 *
 *     limit = used + held + reserved + leased + remaining
 *
 * `held` is what open holds and requests that wait for a person have; `leased` what sidecars have and no
 * record shows as used; `reserved` what children have set aside and can still draw; `used` everything else
 * that is given out, whether records show it or its holder is gone. A limit that was lowered below what is
 * given out has 0 `remaining`, and the sum passes it.
 */
export function readWalletUsage(
  sql: Database,
  wallet: Wallet,
  nowMs: UnixMillis,
): Promise<readonly WalletUsage[]> {
  return sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', (tx) => usageIn(tx, wallet, nowMs));
}

async function usageIn(sql: Transaction, wallet: Wallet, nowMs: UnixMillis): Promise<readonly WalletUsage[]> {
  const names = walletLimitNames.filter((name) => wallet.limits[name] !== undefined);
  if (names.length === 0) return [];
  const windows = names.map((name) => windowAt(walletLimits[name].window, nowMs));
  const bases = names.map((name) => `${walletLimits[name].kind}:${wallet.key}`);
  const rows = await sql<LaneRow[]>`
    WITH asked AS (
      SELECT * FROM unnest(${bases}::text[], ${windows.map(({ name }) => name)}::text[],
        ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[], ${names.map((_, place) => place)}::bigint[]
      ) AS a (base, window_name, starts_at_ms, place)
    )
    SELECT a.place, nullif(split_part(q.counter, ':', 3), '') AS lane, q.leased AS "givenOut",
      least(q.leased, coalesce((SELECT sum(greatest(0, l.units - coalesce(
        (SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)))
        FROM quota_leases l WHERE l.counter = q.counter AND l.window_name = q.window_name
          AND l.starts_at_ms = q.starts_at_ms), 0))::bigint AS leased
    FROM asked a JOIN quota_windows q ON q.window_name = a.window_name AND q.starts_at_ms = a.starts_at_ms
      AND (q.counter = a.base OR (q.counter > a.base || ':' AND q.counter < a.base || ';'))`;
  const openHolds = await readOpenHolds(sql, walletCounter(wallet.key), nowMs);
  const waiting = await readWaiting(sql, wallet, {
    bases,
    windows: windows.map(({ startsAtMs }) => startsAtMs),
  });
  const children = await findReservedChildren(sql, wallet.walletId);
  return names.map((name, place): WalletUsage => {
    const ofLimit = rows.filter((row) => row.place === place);
    const limit = must(wallet.limits[name], 'only limits that are set are read');
    const givenOut = ofLimit.find(({ lane }) => lane === null)?.givenOut ?? 0;
    const leased = Math.min(givenOut, sumOf(ofLimit.map((row) => (row.lane === null ? 0 : row.leased))));
    const drawn = new Map(ofLimit.map((row) => [row.lane, row.givenOut]));
    const isMoney = walletLimits[name].kind === 'wallet_spend';
    const ofHolds = isMoney ? (openHolds.get(walletLimits[name].window) ?? 0) : 0;
    const held = Math.min((waiting[place] ?? 0) + ofHolds, givenOut - leased);
    // A share that was set aside in the middle of a window is what is left of it.
    const free = Math.max(0, limit - givenOut);
    const reserved = Math.min(sumOf(children.map((child) => undrawn(child, wallet, name, drawn))), free);
    const { endsAtMs } = must(windows[place], 'each limit has a window');
    return {
      name,
      limit,
      used: givenOut - leased - held,
      held,
      reserved,
      leased,
      remaining: free - reserved,
      resetAtMs: endsAtMs >= latestUnixMs ? null : endsAtMs,
    };
  });
}

const sumOf = (units: readonly number[]): number => units.reduce((sum, each) => sum + each, 0);

const undrawn = (
  child: Pick<Wallet, 'key' | 'limits' | 'share'>,
  wallet: Wallet,
  name: WalletLimitName,
  drawn: ReadonlyMap<string | null, number>,
): number =>
  isSetAside(child, wallet, name) ? Math.max(0, (child.limits[name] ?? 0) - (drawn.get(child.key) ?? 0)) : 0;

/**
 * What approvals hold that are not used, in the order of the bases. Only passports of its account draw on a
 * wallet.
 */
async function readWaiting(
  sql: Transaction,
  { accountId, mode }: Owner,
  { bases, windows }: { readonly bases: readonly string[]; readonly windows: readonly number[] },
): Promise<readonly number[]> {
  const rows = await sql<{ place: number; units: number }[]>`
    SELECT a.place, sum((h->>'units')::bigint)::bigint AS units
    FROM approvals, jsonb_array_elements(approvals.holds) h
    JOIN unnest(${[...bases]}::text[], ${[...windows]}::bigint[], ${bases.map((_, place) => place)}::bigint[])
      AS a (base, starts_at_ms, place) ON h->>'counter' LIKE a.base || ':%' AND (h->>'startsAtMs')::bigint = a.starts_at_ms
    WHERE approvals.passport_account_id = ${accountId} AND approvals.passport_mode = ${mode}
      AND approvals.due_at_ms IS NOT NULL AND approvals.holds <> '[]'::jsonb
    GROUP BY a.place`;
  const units = new Map(rows.map((row) => [row.place, row.units]));
  return bases.map((_, place) => units.get(place) ?? 0);
}
