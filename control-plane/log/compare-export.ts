import type { ChainFault } from '../../shared/attestation/broken-chains.ts';
import { headKey } from '../../shared/log/entry.ts';
import { chainOwners } from '../attestations/chain-store.ts';
import type { ExportedLog } from '../attestations/export-attestations.ts';
import type { Transaction } from '../base/database.ts';
import type { LogDeps } from './deps.ts';
import { logLimits } from './limits.ts';
import { chainProver } from './prove-head.ts';

/** Of the newest log, because a recovery begins one in which every chain is logged anew. */
const newest = (tx: Transaction) => tx`log = (SELECT max(log) FROM log_trees)`;

/**
 * What whoever can write to the database takes from a chain together with its head row, the log still has:
 * so exports are held against it (contract §9).
 */
export const exportedLog = (deps: Pick<LogDeps, 'witnesses'>): ExportedLog => ({
  proveChains: chainProver(deps),

  noteLosses: async (tx, { accountId, mode }, note) => {
    // One look at an index for each chain: joins would read the log of all accounts.
    const furthest = tx`
      SELECT sequence FROM log_entries
      WHERE ${newest(tx)} AND log_entries.chain_id = owned.chain_id ORDER BY sequence DESC LIMIT 1`;
    await tx<{ chainId: string; fault: ChainFault; sequence: number }[]>`
      SELECT owned.chain_id AS "chainId", 'behind_log' AS fault, owned.sequence + 1 AS sequence
      FROM chains AS owned CROSS JOIN LATERAL (${furthest}) AS logged
      WHERE account_id = ${accountId} AND mode = ${mode} AND logged.sequence > owned.sequence
      UNION ALL
      SELECT owned.chain_id, CASE WHEN head.chain_id IS NULL THEN 'behind_log' ELSE 'owner_differs' END, 1
      FROM (${chainOwners(tx)}) AS owned
      LEFT JOIN chains AS head ON head.chain_id = owned.chain_id
      LEFT JOIN LATERAL (SELECT sequence FROM (${furthest}) AS any_owner WHERE head.chain_id IS NULL) AS logged ON true
      WHERE owned.account_id = ${accountId} AND owned.mode = ${mode}
        AND (logged.sequence IS NOT NULL OR head.account_id <> ${accountId} OR head.mode <> ${mode})`.forEach(
      note,
    );
  },

  readHeads: async (tx, ranges) => {
    const rows = await tx<{ chainId: string; sequence: number; hash: string }[]>`
      SELECT wanted.chain_id AS "chainId", found.sequence, 'sha256:' || encode(found.hash, 'hex') AS hash
      FROM unnest(${ranges.map(({ chainId }) => chainId)}::text[],
        ${ranges.map(({ firstSequence }) => firstSequence)}::bigint[],
        ${ranges.map(({ lastSequence }) => lastSequence)}::bigint[]) AS wanted (chain_id, first, last)
      CROSS JOIN LATERAL (
        SELECT sequence, hash FROM log_entries
        WHERE ${newest(tx)} AND log_entries.chain_id = wanted.chain_id AND sequence BETWEEN first AND last
        LIMIT least(last - first + 1, ${logLimits.headsPerRangeMax})
      ) AS found`;
    return new Map(rows.map((head) => [headKey(head), head.hash]));
  },
});
