import type { Static } from 'typebox';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import { type MicroUsd, renderUsd } from '../../shared/model/money.ts';
import { dayMs, minuteMs, parseTime, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import {
  parseStatementPlace,
  renderStatementPlace,
  type StatementLine,
  type WalletStatementAnswer,
  type WalletStatementQuery,
} from '../../shared/wire/api/wallet.ts';
import type { Database } from '../base/database.ts';
import { walletsRoomLimits } from './limits.ts';
import { treeOf } from './wallet-store.ts';

interface Line extends StatementLine {
  readonly spent: MicroUsd;
  readonly requests: number;
}

interface Total {
  readonly spent: MicroUsd;
  readonly requests: number;
  readonly page: readonly Line[];
}

/**
 * What PERMITs of a time took from a wallet and from those below it, summed from the records that name them.
 * A PERMIT counts what the last record that refers to it says, however late, and one that was voided counts
 * nothing. Lines are in the order of their names, which no later record changes, so pages neither repeat nor
 * skip; totals are of all lines.
 *
 * Reads the chains of passports that records in these wallets name, from the month of `since` on, and no
 * others of the account (`wallet-chain-store.ts`).
 */
export async function readStatement(
  sql: Database,
  { walletId, query }: { readonly walletId: WalletId; readonly query: Static<typeof WalletStatementQuery> },
): Promise<Static<typeof WalletStatementAnswer>> {
  const { sinceMs, untilMs } = timeOf(query);
  const after = query.page === undefined ? null : parseStatementPlace(query.page);
  const names = [...(await treeOf(sql, walletId))];
  const [found] = await sql<Total[]>`
    WITH numbers AS (
      SELECT number FROM record_names WHERE name = ANY(${names}::text[])
    ), drawing AS (
      SELECT number AS chain, chain_id FROM chains
      WHERE number = ANY(ARRAY(SELECT chain FROM wallet_chains WHERE wallet_id = ANY(${names}::text[])))
    ), found AS MATERIALIZED (
      SELECT r.chain, d.chain_id, r.sequence, r.attestation_id, r.gate, r.permission_key, r.amount_micro_usd, r.wallet,
        r.timestamp_ms, r.test, r.resolution, r.refers_to
      FROM drawing d JOIN records r ON r.chain = d.chain
      WHERE r.decision = 'P' AND r.position >= records_from(${Math.max(0, sinceMs - minuteMs)})
    ), later AS (
      SELECT DISTINCT ON (refers_to) refers_to, amount_micro_usd, resolution FROM found
      WHERE refers_to IS NOT NULL ORDER BY refers_to, sequence DESC
    ), lines AS MATERIALIZED (
      SELECT f.chain_id AS passport_id, coalesce(gate.name, '') COLLATE "C" AS gate_id,
        coalesce(f.permission_key, '') COLLATE "C" AS permission_key,
        sum(coalesce(CASE WHEN l.refers_to IS NULL THEN f.amount_micro_usd ELSE l.amount_micro_usd END, 0))::bigint AS spent,
        count(*) AS requests
      FROM found f LEFT JOIN later l ON l.refers_to = id_of_uuid('att', f.attestation_id)
      LEFT JOIN record_names gate ON gate.number = f.gate
      WHERE f.wallet IN (SELECT number FROM numbers) AND f.resolution IS NULL AND NOT f.test
        AND f.timestamp_ms >= ${sinceMs} AND f.timestamp_ms < ${untilMs} AND l.resolution IS DISTINCT FROM 'voided'
      GROUP BY 1, 2, 3
    )
    SELECT coalesce(sum(spent), 0)::bigint AS spent, coalesce(sum(requests), 0)::bigint AS requests, (
      SELECT coalesce(jsonb_agg(jsonb_build_object('passportId', passport_id, 'gateId', nullif(gate_id, ''),
        'permissionKey', nullif(permission_key, ''), 'spent', spent, 'requests', requests)), '[]')
      FROM (
        SELECT * FROM lines ${
          after === null
            ? sql``
            : sql`WHERE (passport_id, gate_id, permission_key)
                > (${after.passportId}::text, ${after.gateId ?? ''}::text, ${after.permissionKey ?? ''}::text)`
        }
        ORDER BY passport_id, gate_id, permission_key LIMIT ${query.limit + 1}
      ) AS page
    ) AS page
    FROM lines`;
  const { spent, requests, page } = must(found, 'a sum has a row');
  const items = page.slice(0, query.limit);
  const last = page.length > items.length ? items.at(-1) : undefined;
  return {
    wallet_id: walletId,
    since: renderTime(sinceMs),
    until: renderTime(untilMs),
    total_usd: renderUsd(spent),
    total_requests: requests,
    items: items.map((line) => ({
      passport_id: line.passportId,
      gate_id: line.gateId,
      permission_key: line.permissionKey,
      spent_usd: renderUsd(line.spent),
      requests: line.requests,
    })),
    next_page: last === undefined ? null : renderStatementPlace(last),
  };
}

function timeOf({ since, until }: Static<typeof WalletStatementQuery>): {
  readonly sinceMs: UnixMillis;
  readonly untilMs: UnixMillis;
} {
  const sinceMs = parseTime(since);
  const untilMs = parseTime(until);
  if (sinceMs === null) throw invalidRequest('since', 'since must be an RFC 3339 date-time.');
  if (untilMs === null) throw invalidRequest('until', 'until must be an RFC 3339 date-time.');
  if (untilMs < sinceMs) throw invalidRequest('until', 'until must not lie before since.');
  if (untilMs - sinceMs > walletsRoomLimits.statementMsMax)
    throw invalidRequest(
      'until',
      `until must be at most ${walletsRoomLimits.statementMsMax / dayMs} days after since.`,
    );
  return { sinceMs, untilMs };
}
