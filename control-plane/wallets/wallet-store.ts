import { must } from '../../shared/errors/assert.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Wallet, type WalletLimits, walletLimitNames } from '../../shared/model/wallet.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { ofKey } from '../creation/unique-name.ts';
import { hasPart } from '../storage/has-part.ts';
import { readPage } from '../storage/read-page.ts';

const columns = (sql: Database | Transaction) => sql`
  wallet_id AS "walletId", account_id AS "accountId", mode, wallet_key AS key, name, labels, parent_id AS "parentId", path,
  limits, share, set_aside AS "setAside", alert_at AS "alertAt", status, created_at_ms AS "createdAtMs",
  changed_at_ms AS "changedAtMs"`;

const ownedBy = (sql: Database | Transaction, { accountId, mode }: Owner) =>
  sql`account_id = ${accountId} AND mode = ${mode} AND deleted_at_ms IS NULL`;

/**
 * Until the transaction ends no other changes a tree of the account: so no two moves make a circle, and what
 * children set aside is summed once.
 */
export async function lockTrees(tx: Transaction, { accountId }: Owner): Promise<void> {
  await tx`SELECT FROM accounts WHERE account_id = ${accountId} FOR NO KEY UPDATE`;
}

export async function countWallets(tx: Transaction, owner: Owner): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*) FROM wallets WHERE ${ownedBy(tx, owner)}`;
  return must(row, 'a count has a row').count;
}

export async function findWallet(
  sql: Database | Transaction,
  owner: Owner,
  walletId: WalletId,
): Promise<Wallet | null> {
  const [row] = await sql<Wallet[]>`
    SELECT ${columns(sql)} FROM wallets WHERE wallet_id = ${walletId} AND ${ownedBy(sql, owner)}`;
  return row ?? null;
}

/** Locks it until the transaction ends: nothing is put into it meanwhile. */
export async function lockWallet(tx: Transaction, owner: Owner, walletId: WalletId): Promise<Wallet | null> {
  const [row] = await tx<Wallet[]>`
    SELECT ${columns(tx)} FROM wallets WHERE wallet_id = ${walletId} AND ${ownedBy(tx, owner)} FOR UPDATE`;
  return row ?? null;
}

export async function insertWallet(tx: Transaction, wallet: Wallet): Promise<void> {
  await tx`
    INSERT INTO wallets (wallet_id, account_id, mode, wallet_key, name, labels, parent_id, path, limits, share, set_aside,
      alert_at, status, created_at_ms, changed_at_ms)
    VALUES (${wallet.walletId}, ${wallet.accountId}, ${wallet.mode}, ${wallet.key}, ${wallet.name},
      ${JSON.stringify(wallet.labels)}::text::jsonb, ${wallet.parentId}, ${[...wallet.path]}, ${JSON.stringify(wallet.limits)}::text::jsonb, ${wallet.share},
      ${JSON.stringify(wallet.setAside)}::text::jsonb, ${wallet.alertAt}, ${wallet.status}, ${wallet.createdAtMs}, ${wallet.changedAtMs})`;
}

/** Its path and those below it are written by `movePaths`. */
export async function updateWalletRow(tx: Transaction, wallet: Wallet): Promise<void> {
  await tx`
    UPDATE wallets SET name = ${wallet.name}, labels = ${JSON.stringify(wallet.labels)}::text::jsonb, parent_id = ${wallet.parentId},
      limits = ${JSON.stringify(wallet.limits)}::text::jsonb, share = ${wallet.share}, alert_at = ${wallet.alertAt},
      status = ${wallet.status}, changed_at_ms = ${wallet.changedAtMs}
    WHERE wallet_id = ${wallet.walletId}`;
}

/** Puts a wallet and all below it under another path, which is that of its new parent. */
export async function movePaths(
  tx: Transaction,
  walletId: WalletId,
  above: readonly WalletId[],
): Promise<void> {
  await tx`
    UPDATE wallets SET path = path[1:array_position(path, ${walletId})] || ${[...above]}::text[]
    WHERE wallet_id IN (${below(tx, walletId)})`;
}

/** A wallet and all below it; the depth of trees bounds it. */
const below = (sql: Database | Transaction, walletId: WalletId) => sql`
  WITH RECURSIVE tree AS (
    SELECT wallet_id FROM wallets WHERE wallet_id = ${walletId}
    UNION ALL SELECT w.wallet_id FROM wallets w JOIN tree t ON w.parent_id = t.wallet_id WHERE w.deleted_at_ms IS NULL
  ) SELECT wallet_id FROM tree`;

/** How many levels a wallet and those below it take. */
export async function heightOf(
  tx: Transaction,
  { walletId, path }: Pick<Wallet, 'walletId' | 'path'>,
): Promise<number> {
  const [row] = await tx<{ deepest: number }[]>`
    SELECT max(cardinality(path)) AS deepest FROM wallets WHERE wallet_id IN (${below(tx, walletId)})`;
  return must(row, 'a maximum has a row').deepest - path.length + 1;
}

/** Ids of a wallet and of all below it, those that were deleted included: records may name them. */
export async function treeOf(sql: Database | Transaction, walletId: WalletId): Promise<readonly WalletId[]> {
  const rows = await sql<{ walletId: WalletId }[]>`
    WITH RECURSIVE tree AS (
      SELECT wallet_id FROM wallets WHERE wallet_id = ${walletId}
      UNION ALL SELECT w.wallet_id FROM wallets w JOIN tree t ON w.parent_id = t.wallet_id
    ) SELECT wallet_id AS "walletId" FROM tree`;
  return rows.map((row) => row.walletId);
}

/** What children set aside of the limits of a wallet, summed anew. */
export async function sumSetAside(tx: Transaction, walletId: WalletId): Promise<WalletLimits> {
  const rows = await tx<{ limits: WalletLimits }[]>`
    SELECT limits FROM wallets WHERE parent_id = ${walletId} AND share = 'reserved' AND deleted_at_ms IS NULL`;
  const sums: Record<string, number> = {};
  for (const { limits } of rows)
    for (const name of walletLimitNames) {
      const units = limits[name];
      if (units !== undefined) sums[name] = (sums[name] ?? 0) + units;
    }
  return sums;
}

export async function writeSetAside(
  tx: Transaction,
  walletId: WalletId,
  setAside: WalletLimits,
  nowMs: UnixMillis,
): Promise<void> {
  await tx`
    UPDATE wallets SET set_aside = ${JSON.stringify(setAside)}::text::jsonb, changed_at_ms = ${nowMs}
    WHERE wallet_id = ${walletId}`;
}

/** Children, passports that may still be used, and issuers whose new passports come into it. */
export async function countInside(
  sql: Database | Transaction,
  walletId: WalletId,
  nowMs: UnixMillis,
): Promise<{ readonly children: number; readonly passports: number; readonly issuers: number }> {
  const [row] = await sql<{ children: number; passports: number; issuers: number }[]>`
    SELECT (SELECT count(*) FROM wallets WHERE parent_id = ${walletId} AND deleted_at_ms IS NULL) AS children,
      (SELECT count(*) FROM passport_wallets w JOIN passports p ON p.passport_id = w.passport_id COLLATE "default"
        WHERE w.wallet_id = ${walletId} AND p.status IN ('active', 'suspended')
          AND (p.expires_at_ms IS NULL OR p.expires_at_ms > ${nowMs})) AS passports,
      (SELECT count(*) FROM issuers WHERE wallet_id = ${walletId}) AS issuers`;
  return must(row, 'a count has a row');
}

export async function markDeleted(tx: Transaction, walletId: WalletId, nowMs: UnixMillis): Promise<void> {
  await tx`UPDATE wallets SET deleted_at_ms = ${nowMs} WHERE wallet_id = ${walletId}`;
}

export async function hasWalletNamed(
  tx: Transaction,
  owner: Owner,
  name: string,
  key: string | null,
): Promise<boolean> {
  const rows =
    await tx`SELECT FROM wallets WHERE ${ownedBy(tx, owner)} AND name = ${name} ${ofKey(tx, tx`labels`, key)} LIMIT 1`;
  return rows.length > 0;
}

export interface WalletFilter {
  readonly namePart: string | null;
  /** Null: all; `root`: those without. */
  readonly parentId: string | null;
}

export async function listWallets(
  sql: Database | Transaction,
  owner: Owner,
  { filter, page }: { readonly filter: WalletFilter; readonly page: PagePlace },
): Promise<Page<Wallet>> {
  const { namePart, parentId } = filter;
  const ofParent = parentId === '' ? sql`AND parent_id IS NULL` : sql`AND parent_id = ${parentId}`;
  const where = sql`
    ${ownedBy(sql, owner)} ${hasPart(sql, sql`name`, namePart)} ${parentId === null ? sql`` : ofParent}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM wallets WHERE ${where}`,
    rows: (limit) => sql<Wallet[]>`
      SELECT ${columns(sql)} FROM wallets WHERE ${where} ${page.behind === null ? sql`` : sql`AND wallet_id < ${page.behind}`}
      ORDER BY wallet_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ walletId }) => walletId,
  });
}

/** The newest children of a wallet. */
export const findChildren = (sql: Database | Transaction, walletId: WalletId, max: number) => sql<Wallet[]>`
  SELECT ${columns(sql)} FROM wallets WHERE parent_id = ${walletId} AND deleted_at_ms IS NULL
  ORDER BY wallet_id DESC LIMIT ${max}`;

/** Children that set parts of its limits aside. */
export const findReservedChildren = (sql: Database | Transaction, walletId: WalletId) => sql<
  Pick<Wallet, 'key' | 'limits' | 'share'>[]
>`
  SELECT wallet_key AS key, limits, share FROM wallets
  WHERE parent_id = ${walletId} AND share = 'reserved' AND deleted_at_ms IS NULL`;
