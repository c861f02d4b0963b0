import { contentHash } from '../../shared/crypto/content-hash.ts';
import { type Jwk, renderJwks } from '../../shared/crypto/keyset.ts';
import { auditChainName, keyChainName, type LoggedHead, policyChainName } from '../../shared/log/entry.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import type { Database, Transaction } from '../base/database.ts';
import { logLimits } from './limits.ts';

/**
 * Some chains, and those of them that have got further than the log. `next`: where the next page begins;
 * null: this was the last.
 */
export interface HeadPage {
  readonly heads: readonly LoggedHead[];
  readonly next: readonly string[] | null;
}

export type HeadSource = (
  sql: Database | Transaction,
  log: number,
  after: readonly string[] | null,
) => Promise<HeadPage>;

interface Row extends LoggedHead {
  readonly key: readonly string[];
  readonly isBehind: boolean;
}

const pageOf = (rows: readonly Row[]): HeadPage => ({
  heads: rows
    .filter(({ isBehind }) => isBehind)
    .map(({ chainId, sequence, hash }) => ({ chainId, sequence, hash })),
  next: rows.length < logLimits.pageChainsMax ? null : (rows.at(-1)?.key ?? null),
});

/** Chains of attestations. A page costs what it looks at, and takes no lock that an ingest waits for. */
const chainsPage: HeadSource = async (sql, log, after) => {
  const rows = await sql<
    { last: string; chainId: string | null; sequence: number; hash: string; count: number }[]
  >`
    WITH page AS MATERIALIZED (
      SELECT chain_id, sequence, hash FROM chains WHERE chain_id > ${after?.[0] ?? ''}
      ORDER BY chain_id LIMIT ${logLimits.pageChainsMax}),
    behind AS (
      SELECT page.chain_id, page.sequence, page.hash FROM page
      LEFT JOIN logged_heads AS logged ON logged.chain_id = page.chain_id AND logged.log = ${log}
      WHERE page.sequence > coalesce(logged.sequence, 0))
    SELECT whole.last, whole.count, behind.chain_id AS "chainId", behind.sequence, behind.hash
    FROM (SELECT max(chain_id) AS last, count(*) AS count FROM page) AS whole LEFT JOIN behind ON true
    ORDER BY behind.chain_id`;
  const [first] = rows;
  const isLast = first === undefined || first.count < logLimits.pageChainsMax;
  return {
    heads: rows.flatMap(({ chainId, sequence, hash }) =>
      chainId === null ? [] : [{ chainId, sequence, hash }],
    ),
    next: isLast ? null : [first.last],
  };
};

/** A few for each account. */
const auditPage: HeadSource = async (sql, log, after) => {
  const [accountId, mode] = after ?? ['', ''];
  const rows = await sql<
    { accountId: string; mode: string; sequence: number; hash: string; isBehind: boolean }[]
  >`
    SELECT page.account_id AS "accountId", page.mode, page.sequence, page.hash,
      page.sequence > coalesce(logged.sequence, 0) AS "isBehind"
    FROM (SELECT account_id, mode, sequence, hash FROM audit_chains
      WHERE (account_id, mode) > (${accountId ?? ''}, ${mode ?? ''})
      ORDER BY account_id, mode LIMIT ${logLimits.pageChainsMax}) AS page
    LEFT JOIN logged_heads AS logged ON logged.log = ${log}
      AND logged.chain_id = 'audit:' || page.account_id || ':' || page.mode
    ORDER BY page.account_id, page.mode`;
  return pageOf(
    rows.map((row) => ({
      ...row,
      chainId: auditChainName(row.accountId, row.mode),
      key: [row.accountId, row.mode],
    })),
  );
};

/** One for each text that a gate ever had. */
const policiesPage: HeadSource = async (sql, log, after) => {
  const rows = await sql<{ hash: string; isBehind: boolean }[]>`
    SELECT page.policy_hash AS hash, logged.chain_id IS NULL AS "isBehind"
    FROM (SELECT policy_hash FROM policies WHERE policy_hash > ${after?.[0] ?? ''}
      ORDER BY policy_hash LIMIT ${logLimits.pageChainsMax}) AS page
    LEFT JOIN logged_heads AS logged ON logged.log = ${log} AND logged.chain_id = 'policy:' || page.policy_hash
    ORDER BY page.policy_hash`;
  return pageOf(
    rows.map(({ hash, isBehind }) => ({
      ...{ chainId: policyChainName(hash), sequence: 1, hash, isBehind, key: [hash] },
    })),
  );
};

export const headSources: readonly HeadSource[] = [chainsPage, auditPage, policiesPage];

/**
 * Keys as the JWKS shows them: 1 when a key is published, 2 when its end is, 3 when it is declared
 * compromised.
 */
export async function changedKeys(
  sql: Database | Transaction,
  log: number,
  keys: readonly VerificationKey[],
): Promise<readonly LoggedHead[]> {
  const heads = renderJwks(keys).keys.map(keyHead);
  const rows = await sql<{ chainId: string; sequence: number }[]>`
    SELECT chain_id AS "chainId", sequence FROM logged_heads
    WHERE log = ${log} AND chain_id = ANY(${heads.map(({ chainId }) => chainId)}::text[])`;
  const logged = new Map(rows.map(({ chainId, sequence }) => [chainId, sequence]));
  return heads.filter(({ chainId, sequence }) => sequence > (logged.get(chainId) ?? 0));
}

function keyHead(jwk: Jwk): LoggedHead {
  const ended = jwk.retired_at === null ? 1 : 2;
  return {
    chainId: keyChainName(jwk.kid),
    sequence: jwk.compromised ? 3 : ended,
    hash: contentHash(jwk),
  };
}
