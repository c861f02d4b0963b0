import { ownerName } from '../../shared/crypto/federated-id.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { type IdDigest, idDigestBytes } from '../../shared/model/id-digest.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { setOwnerStatus } from './owner-store.ts';
import { setPassportRevoked, setPassportStatus } from './passport-store.ts';

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
  passportId: PassportId,
  nowMs: UnixMillis,
): Promise<void> {
  const standing = await findEnd(tx, passportId);
  if (standing === null) return;
  if (standing === 'suspended') await setPassportStatus(tx, passportId, 'suspended');
  else await setPassportRevoked(tx, passportId, { reason: 'recovered', nowMs, by: null });
  await deleteEnd(tx, passportId);
}

/** The same of an owner whose name is here from now on. */
export async function adoptOwnerEnd(tx: Transaction, account: Owner, owner: string): Promise<void> {
  const name = ownerName(account, owner);
  if ((await findEnd(tx, name)) === null) return;
  await setOwnerStatus(tx, account, owner, 'suspended');
  await deleteEnd(tx, name);
}

/**
 * Passports and owners that got a row between what a recovery found and what it wrote take over their ends,
 * too. A call that began before the ends were written has ended by then; one that begins later sees them.
 */
export async function adoptSeenMeanwhile(tx: Transaction, nowMs: UnixMillis): Promise<void> {
  await tx`LOCK TABLE passports IN SHARE ROW EXCLUSIVE MODE`;
  const idOf = tx`passport_id`;
  const digestOf = (name: typeof idOf) =>
    tx`substring(sha256(convert_to(${name}, 'UTF8')) FOR ${idDigestBytes}::int)`;
  const passports = await tx<{ passportId: PassportId }[]>`
    SELECT passport_id AS "passportId" FROM passports
    WHERE ${digestOf(idOf)} IN (SELECT digest FROM unnamed_ends)`;
  for (const { passportId } of passports) await adoptPassportEnd(tx, passportId, nowMs);
  const owners = await tx<(Owner & { owner: string })[]>`
    SELECT DISTINCT account_id AS "accountId", mode, owner FROM passports
    WHERE owner IS NOT NULL
      AND ${digestOf(tx`concat_ws(':', 'owner', account_id, mode, owner)`)} IN (SELECT digest FROM unnamed_ends)`;
  for (const { owner, ...account } of owners) await adoptOwnerEnd(tx, account, owner);
}

async function findEnd(sql: Database | Transaction, name: string): Promise<UnnamedEnd['standing'] | null> {
  const [row] = await sql<Pick<UnnamedEnd, 'standing'>[]>`
    SELECT standing FROM unnamed_ends WHERE digest = decode(${hexOf(idDigest(name))}, 'hex')`;
  return row?.standing ?? null;
}

async function deleteEnd(tx: Transaction, name: string): Promise<void> {
  await tx`DELETE FROM unnamed_ends WHERE digest = decode(${hexOf(idDigest(name))}, 'hex')`;
}
