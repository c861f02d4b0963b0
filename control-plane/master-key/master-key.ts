/**
 * Room `control-plane/master-key`: MASTER_KEY, under which the database keeps its secrets. Where keys come
 * from (`key-sources.ts`), what a start makes of them (`take-master-keys.ts`), and their change: who runs
 * with which (`replica-store.ts`), what is sealed (`sealed-place.ts`), sealing it anew (`reseal.ts`) and when
 * (`follow-master-keys.ts`). Here: the checks that notice a wrong key.
 *
 *     in use: old ──a control plane starts with the new one──> old and new ──resealed──> new
 */

import { nonceBytes, SealError, type Sealer } from '../../shared/crypto/seal.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { type MasterKeyCheck, putCheck, readChecks } from './installation-store.ts';

/** The master keys are not those of this database: what is sealed in it cannot be opened. */
export class MasterKeyError extends StartError {
  override readonly name = 'MasterKeyError';
}

/** Its content does not matter: that it opens is the check. */
const checkText = Buffer.from('agent-trust');

/** The id in the prefix of a sealed text; null: it is of the first key. */
export const keyIdOf = (sealed: string): string | null => /^v2\.([0-9a-f]{16})\./.exec(sealed)?.[1] ?? null;

/** Whether the sealer opens it. */
export function opensCheck(sealer: Sealer, { value }: MasterKeyCheck): boolean {
  try {
    sealer.open(value, checkContext);
    return true;
  } catch (error) {
    if (error instanceof SealError) return false;
    throw error;
  }
}

const checkContext = 'installation/master_key_check';

export const sealCheck = ({ sealer, random }: Pick<BaseDeps, 'sealer' | 'random'>): string =>
  sealer.seal(checkText, checkContext, random.bytes(nonceBytes));

/**
 * Compares the master keys with those that are in use in this database, and notes the own one among them: a
 * wrong key must show at start, and not when the first passport is to be signed. The caller holds a lock, so
 * that two first starts do not both write. Throws MasterKeyError.
 */
export async function checkMasterKey(
  tx: Transaction,
  deps: Pick<BaseDeps, 'sealer' | 'random'>,
): Promise<void> {
  const checks = await readChecks(tx);
  for (const { value } of checks) openSealed(deps.sealer, value, checkContext);
  await noteInUse(tx, deps, checks);
}

/** From now on this key may have sealed something, and no start succeeds without it. */
export async function noteInUse(
  tx: Transaction,
  deps: Pick<BaseDeps, 'sealer' | 'random'>,
  checks: readonly MasterKeyCheck[],
): Promise<void> {
  const { prefix, keyId } = deps.sealer;
  if (checks.some(({ value }) => value.startsWith(prefix))) return;
  await putCheck(tx, { keyId: checks.length === 0 ? null : keyId, value: sealCheck(deps) });
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
