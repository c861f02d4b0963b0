import { readFile } from 'node:fs/promises';
import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { parseWitnessPolicy, type WitnessPolicy } from '../../shared/log/witness-policy.ts';
import { StartError } from '../../shared/runtime/start-error.ts';

/** LOG_WITNESSES. Throws StartError for a file that cannot be used. */
export async function readWitnessPolicy(
  path: string | null,
  ed25519: Ed25519,
): Promise<WitnessPolicy | null> {
  if (path === null) return null;
  try {
    return parseWitnessPolicy(ed25519, await readFile(path));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(`LOG_WITNESSES ${path} is not a usable policy: ${why}.`, { cause });
  }
}
