import { join } from 'node:path';
import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { nonceBytes, SealError, type Sealer } from '../../shared/crypto/seal.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readOrMakeSecretFile, readSecretFile } from '../storage/secret-file.ts';
import type { SigningDeps } from './deps.ts';

/** MASTER_KEY is not the one with which this database was set up: what is sealed in it cannot be opened. */
export class MasterKeyError extends StartError {
  override readonly name = 'MasterKeyError';
}

const masterKeyBytes = 32;

/**
 * MASTER_KEY of an installation with an embedded database: `<dataDir>/master-key`, 0600, made on the first
 * start. Never made for a database that was set up with another one: the new file would only hide that the
 * old one is lost. Throws MasterKeyError.
 */
export async function masterKeyOf(
  dataDir: string,
  { sql, random }: Pick<SigningDeps, 'sql' | 'random'>,
): Promise<Uint8Array> {
  const path = join(dataDir, 'master-key');
  if ((await readSecretFile(path)) === null && (await readCheck(sql)) !== null) {
    throw new MasterKeyError(
      `${path} is missing, and the secrets in the database cannot be unsealed with another key. Restore the file from your backup, or set MASTER_KEY.`,
    );
  }
  const text = await readOrMakeSecretFile(path, () => encodeBase64url(random.bytes(masterKeyBytes)));
  const key = decodeBase64url(text);
  if (key?.length !== masterKeyBytes) {
    throw new MasterKeyError(
      `${path} contains no master key (32 bytes as base64url). Restore the file from your backup.`,
    );
  }
  return key;
}

const checkName = 'master_key_check';
const checkContext = `installation/${checkName}`;
/** Its content does not matter: that it opens is the check. */
const checkText = Buffer.from('agent-trust');

/**
 * Notes on the first start which master key belongs to this database, and compares on every later one: a
 * changed key must show at start, and not when the first passport is to be signed. The caller holds a lock,
 * so that two first starts do not both write. Throws MasterKeyError.
 */
export async function checkMasterKey(
  tx: Transaction,
  { sealer, random }: Pick<SigningDeps, 'sealer' | 'random'>,
): Promise<void> {
  const existing = await readCheck(tx);
  if (existing === null) {
    const value = sealer.seal(checkText, checkContext, random.bytes(nonceBytes));
    await tx`INSERT INTO installation (name, value) VALUES (${checkName}, ${value})`;
    return;
  }
  openSealed(sealer, existing, checkContext);
}

/** Null: this database was never set up. */
async function readCheck(sql: Database | Transaction): Promise<string | null> {
  const [row] = await sql<{ value: string }[]>`SELECT value FROM installation WHERE name = ${checkName}`;
  return row?.value ?? null;
}

/** Opens what an earlier start sealed. Throws MasterKeyError. */
export function openSealed(sealer: Sealer, sealed: string, context: string): Uint8Array {
  try {
    return sealer.open(sealed, context);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new MasterKeyError(
      'MASTER_KEY is not the one with which this database was set up, so its signing keys cannot be opened. ' +
        'Set the original MASTER_KEY (with an embedded database: restore DATA_DIR/master-key).',
      { cause: error },
    );
  }
}
