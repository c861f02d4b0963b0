import { ownerName } from '../../shared/crypto/federated-id.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { type IdDigest, idDigestBytes } from '../../shared/model/id-digest.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { setPassportRevoked } from './passport-store.ts';
import {
  keepSuspended,
  lockOwners,
  lockPassports,
  moveSuspensions,
  type Owned,
  suspendWithOwners,
} from './suspension-store.ts';

/** A passport or owner that a recovery took back and that has no row here: it has one once it is seen. */
export interface UnnamedEnd {
  readonly digest: IdDigest;
  readonly standing: 'suspended' | 'revoked';
  readonly expiredByDay: number | null;
}

const hexOf = (digest: IdDigest): string => Buffer.from(digest, 'base64url').toString('hex');

/** Of two standings the one that takes more away is kept. */
export async function putUnnamedEnd(tx: Transaction, end: UnnamedEnd): Promise<void> {
  await tx`
    INSERT INTO unnamed_ends AS known (digest, standing, expired_by_day)
    VALUES (decode(${hexOf(end.digest)}, 'hex'), ${end.standing}, ${end.expiredByDay})
    ON CONFLICT (digest) DO UPDATE SET standing = excluded.standing WHERE known.standing = 'suspended'`;
}

/** A new passport takes over the standing that it had before its row was lost. */
export async function adoptPassportEnd(
  tx: Transaction,
  { passportId, nowMs, ...account }: Owner & { readonly passportId: PassportId; readonly nowMs: UnixMillis },
): Promise<void> {
  const standing = await findEnd(tx, passportId);
  if (standing === null) return;
  await lockPassports(tx, account, { ids: [passportId], owners: [] });
  await deleteEnd(tx, passportId);
  if (standing === 'suspended') await keepSuspended(tx, account, { passportId, nowMs });
  else await setPassportRevoked(tx, passportId, { reason: 'recovered', nowMs, by: null });
}

/** The same of an owner whose name is here from now on. Whose it was is not known: the account can end it. */
export async function adoptOwnerEnd(
  tx: Transaction,
  change: WriteChange,
  { owner, nowMs, ...account }: Owner & { readonly owner: string; readonly nowMs: UnixMillis },
): Promise<void> {
  const name = ownerName(account, owner);
  if ((await findEnd(tx, name)) === null) return;
  await lockPassports(tx, account, { ids: [], owners: [owner] });
  await deleteEnd(tx, name);
  const moves = [{ of: { owner }, to: 'suspended', cause: 'account', event: null }] as const;
  await moveSuspensions(tx, change, account, { moves, nowMs });
}

/**
 * Suspends those of these passports whose owner is. The owners are held. Resolves to the ids of those that it
 * has suspended.
 */
export async function standWithOwners(
  tx: Transaction,
  change: WriteChange,
  passports: readonly (Owned & { readonly passportId: PassportId })[],
  nowMs: UnixMillis,
): Promise<readonly PassportId[]> {
  const owned = passports.filter(({ owner }) => owner !== null);
  if (owned.length === 0) return [];
  for (const { owner, accountId, mode } of owned)
    await adoptOwnerEnd(tx, change, { owner: owner ?? '', accountId, mode, nowMs });
  return suspendWithOwners(
    tx,
    change,
    owned.map(({ passportId }) => passportId),
  );
}

/**
 * Passports and owners that got a row between what a recovery found and what it wrote take over their ends,
 * too. A call that began before the ends were written has ended by then; one that begins later sees them.
 */
export async function adoptSeenMeanwhile(
  tx: Transaction,
  change: WriteChange,
  nowMs: UnixMillis,
): Promise<void> {
  await tx`LOCK TABLE passports IN SHARE ROW EXCLUSIVE MODE`;
  const idOf = tx`passport_id`;
  const digestOf = (name: typeof idOf) =>
    tx`substring(sha256(convert_to(${name}, 'UTF8')) FOR ${idDigestBytes}::int)`;
  const owners = await tx<(Owner & { owner: string })[]>`
    SELECT DISTINCT account_id AS "accountId", mode, owner FROM passports
    WHERE owner IS NOT NULL
      AND ${digestOf(tx`concat_ws(':', 'owner', account_id, mode, owner)`)} IN (SELECT digest FROM unnamed_ends)`;
  const passports = await tx<(Owner & { passportId: PassportId })[]>`
    SELECT account_id AS "accountId", mode, passport_id AS "passportId" FROM passports
    WHERE ${digestOf(idOf)} IN (SELECT digest FROM unnamed_ends)`;
  await lockOwners(tx, owners, 'exclusive');
  for (const passport of passports) await adoptPassportEnd(tx, { ...passport, nowMs });
  for (const owner of owners) await adoptOwnerEnd(tx, change, { ...owner, nowMs });
}

async function findEnd(sql: Database | Transaction, name: string): Promise<UnnamedEnd['standing'] | null> {
  const [row] = await sql<Pick<UnnamedEnd, 'standing'>[]>`
    SELECT standing FROM unnamed_ends WHERE digest = decode(${hexOf(idDigest(name))}, 'hex')`;
  return row?.standing ?? null;
}

async function deleteEnd(tx: Transaction, name: string): Promise<void> {
  await tx`DELETE FROM unnamed_ends WHERE digest = decode(${hexOf(idDigest(name))}, 'hex')`;
}
