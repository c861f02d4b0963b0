import type { Database, Transaction } from '../base/database.ts';
import { advisoryLocks } from '../storage/locks.ts';

/** One master key is in use: something in the database may be sealed by it. */
export interface MasterKeyCheck {
  /** Of the row. */
  readonly name: string;
  readonly value: string;
}

const checkName = 'master_key_check';
const receiptKeyName = 'receipt_key';

/** Held to the end of a transaction that changes which master keys are in use. */
export async function lockMasterKeys(tx: Transaction): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(${advisoryLocks.masterKeys})`;
}

/** None: this database was never set up. */
export const readChecks = (sql: Database | Transaction): Promise<MasterKeyCheck[]> =>
  sql<MasterKeyCheck[]>`
    SELECT name, value FROM installation
    WHERE name = ${checkName} OR starts_with(name, ${`${checkName}.`}) ORDER BY name`;

/** `keyId` null: it is the first one. */
export async function putCheck(
  tx: Transaction,
  { keyId, value }: { readonly keyId: string | null; readonly value: string },
): Promise<void> {
  const name = keyId === null ? checkName : `${checkName}.${keyId}`;
  await tx`INSERT INTO installation (name, value) VALUES (${name}, ${value}) ON CONFLICT DO NOTHING`;
}

/** One master key alone is in use from now on. */
export async function replaceChecks(tx: Transaction, value: string): Promise<void> {
  await tx`DELETE FROM installation WHERE starts_with(name, ${`${checkName}.`})`;
  await tx`UPDATE installation SET value = ${value} WHERE name = ${checkName}`;
}

/** Keeps what verifies receipts of a master key that may be removed now. */
export async function keepReceiptKey(
  tx: Transaction,
  { keyId, value }: { readonly keyId: string; readonly value: string },
): Promise<void> {
  await tx`
    INSERT INTO installation (name, value) VALUES (${`${receiptKeyName}.${keyId}`}, ${value})
    ON CONFLICT (name) DO UPDATE SET value = excluded.value`;
}

export const receiptKeyContext = (keyId: string): string => `installation/${receiptKeyName}.${keyId}`;

export interface StoredReceiptKey {
  readonly keyId: string;
  readonly value: string;
}

/** After that id, in the order of their ids, one for each change of MASTER_KEY. */
export const readReceiptKeys = (sql: Database | Transaction, after = ''): Promise<StoredReceiptKey[]> =>
  sql<StoredReceiptKey[]>`
    SELECT substr(name, ${receiptKeyName.length + 2}) AS "keyId", value FROM installation
    WHERE starts_with(name, ${`${receiptKeyName}.`}) AND name > ${`${receiptKeyName}.${after}`} ORDER BY name`;

/** Nothing happens where it has changed meanwhile. */
export async function replaceReceiptKey(
  sql: Database,
  { keyId, value }: StoredReceiptKey,
  by: string,
): Promise<boolean> {
  const { count } = await sql`
    UPDATE installation SET value = ${by} WHERE name = ${`${receiptKeyName}.${keyId}`} AND value = ${value}`;
  return count > 0;
}
