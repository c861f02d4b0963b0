import type { Static } from 'typebox';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import { type MicroUsd, renderUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { dayMs, minuteMs, parseTime, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { WalletStatementAnswer, WalletStatementQuery } from '../../shared/wire/wallet.ts';
import type { Database } from '../base/database.ts';
import { walletsRoomLimits } from './limits.ts';
import { treeOf } from './wallet-store.ts';

interface Line {
  readonly passportId: string;
  readonly gateId: string | null;
  readonly permissionKey: string | null;
  readonly spent: MicroUsd;
  readonly requests: number;
}

/**
 * What PERMITs of a time took from a wallet and from those below it, summed from the records that name them.
 * A PERMIT counts what the last record that refers to it says, and one that was voided counts nothing.
 */
export async function readStatement(
  sql: Database,
  {
    owner,
    walletId,
    query,
  }: {
    readonly owner: Owner;
    readonly walletId: WalletId;
    readonly query: Static<typeof WalletStatementQuery>;
  },
): Promise<Static<typeof WalletStatementAnswer>> {
  const { sinceMs, untilMs } = timeOf(query);
  const names = await treeOf(sql, walletId);
  const lines = await sql<Line[]>`
    WITH numbers AS (
      SELECT number FROM record_names WHERE name = ANY(${[...names]}::text[])
    ), drawing AS (
      SELECT c.number AS chain, c.chain_id AS passport_id
      FROM passport_wallets w JOIN passports p USING (passport_id) JOIN chains c ON c.chain_id = w.passport_id
      WHERE p.account_id = ${owner.accountId} AND p.mode = ${owner.mode}
    ), found AS (
      SELECT r.chain, d.passport_id, r.sequence, r.attestation_id, r.gate, r.permission_key, r.amount_micro_usd, r.wallet,
        r.timestamp_ms, r.decision, r.test, r.resolution, r.refers_to
      FROM drawing d JOIN records r ON r.chain = d.chain
      WHERE r.position >= records_from(${Math.max(0, sinceMs - minuteMs)})
    ), later AS (
      SELECT DISTINCT ON (refers_to) refers_to, amount_micro_usd, resolution FROM found
      WHERE decision = 'P' AND refers_to IS NOT NULL ORDER BY refers_to, sequence DESC
    )
    SELECT f.passport_id AS "passportId", gate.name AS "gateId", f.permission_key AS "permissionKey",
      sum(coalesce(CASE WHEN l.refers_to IS NULL THEN f.amount_micro_usd ELSE l.amount_micro_usd END, 0))::bigint AS spent,
      count(*) AS requests
    FROM found f LEFT JOIN later l ON l.refers_to = id_of_uuid('att', f.attestation_id)
    LEFT JOIN record_names gate ON gate.number = f.gate
    WHERE f.wallet IN (SELECT number FROM numbers) AND f.decision = 'P' AND f.resolution IS NULL AND NOT f.test
      AND f.timestamp_ms >= ${sinceMs} AND f.timestamp_ms < ${untilMs} AND l.resolution IS DISTINCT FROM 'voided'
    GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT ${walletsRoomLimits.statementItemsMax + 1}`;
  if (lines.length > walletsRoomLimits.statementItemsMax)
    throw invalidRequest(
      'until',
      `The statement has more than ${walletsRoomLimits.statementItemsMax} lines: ask for less time at once.`,
    );
  const total = lines.reduce((sum, { spent }) => sum + spent, 0) as MicroUsd;
  return {
    wallet_id: walletId,
    since: renderTime(sinceMs),
    until: renderTime(untilMs),
    total_usd: renderUsd(total),
    total_requests: lines.reduce((sum, { requests }) => sum + requests, 0),
    items: lines.map(({ passportId, gateId, permissionKey, spent, requests }) => ({
      passport_id: passportId,
      gate_id: gateId,
      permission_key: permissionKey,
      spent_usd: renderUsd(spent),
      requests,
    })),
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
