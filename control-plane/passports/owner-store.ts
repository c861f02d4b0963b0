import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';

export type OwnerStatus = 'active' | 'suspended';

/** Locks the standing of this owner of passports until the transaction ends. */
export async function lockOwnerStatus(tx: Transaction, account: Owner, owner: string): Promise<OwnerStatus> {
  const [row] = await tx<{ status: OwnerStatus }[]>`
    INSERT INTO owner_standings (account_id, mode, owner, status)
    VALUES (${account.accountId}, ${account.mode}, ${owner}, 'active')
    ON CONFLICT (account_id, mode, owner) DO UPDATE SET status = owner_standings.status RETURNING status`;
  return row?.status ?? 'active';
}

export async function setOwnerStatus(
  tx: Transaction,
  account: Owner,
  owner: string,
  status: OwnerStatus,
): Promise<void> {
  await tx`
    INSERT INTO owner_standings (account_id, mode, owner, status)
    VALUES (${account.accountId}, ${account.mode}, ${owner}, ${status})
    ON CONFLICT (account_id, mode, owner) DO UPDATE SET status = excluded.status`;
}

export async function countPassportsOf(tx: Transaction, account: Owner, owner: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    SELECT count(*)::int AS count FROM passports
    WHERE account_id = ${account.accountId} AND mode = ${account.mode} AND owner = ${owner}`;
  return row?.count ?? 0;
}
