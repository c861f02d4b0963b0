import { readFile } from 'node:fs/promises';
import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { parseSignedCheckpoint } from '../../shared/log/checkpoint.ts';
import { isKeyName } from '../../shared/log/note.ts';
import { replaceSecretFile } from '../../shared/runtime/secret-file.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { witnessLimits } from './limits.ts';

/** What a witness knows: its name and key, and of each log the checkpoint that it cosigned last. */
export interface WitnessState {
  readonly name: string;
  /** 32 bytes, from which its Ed25519 key is made. */
  readonly seed: Uint8Array;
  /** By origin; with its cosignature. */
  readonly checkpoints: ReadonlyMap<string, string>;
}

const format = 'agent-trust.witness.v1';

/** Null: there is no file yet. Throws StartError for one that is not a whole state. */
export async function readState(file: string): Promise<WitnessState | null> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
  const state = parseState(text);
  if (state === null)
    throw new StartError(
      `${file} is not the state of a witness. Without it the witness would cosign what contradicts what it has cosigned: bring back a copy, or begin a new witness with another name and folder.`,
    );
  return state;
}

function parseState(text: string): WitnessState | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const state = value as { format?: unknown; name?: unknown; seed?: unknown; checkpoints?: unknown } | null;
  if (state?.format !== format || typeof state.name !== 'string' || !isKeyName(state.name)) return null;
  const seed = typeof state.seed === 'string' ? decodeBase64url(state.seed) : null;
  const { checkpoints } = state;
  if (seed?.length !== 32 || typeof checkpoints !== 'object' || checkpoints === null) return null;
  const known = Object.entries(checkpoints as Record<string, unknown>);
  const isOf = ([origin, note]: (typeof known)[number]): boolean =>
    typeof note === 'string' && parseSignedCheckpoint(note)?.checkpoint.origin === origin;
  if (!known.every(isOf)) return null;
  return { name: state.name, seed, checkpoints: new Map(known as [string, string][]) };
}

/**
 * Durable when it resolves: a new file takes the place of the old one, so a kill leaves one of them whole.
 * Rejects where the disk refuses: the file is the old one then, or the new one.
 */
export async function writeState(file: string, { name, seed, checkpoints }: WitnessState): Promise<void> {
  const text = JSON.stringify({
    format,
    name,
    seed: encodeBase64url(seed),
    checkpoints: Object.fromEntries(checkpoints),
  });
  if (text.length > witnessLimits.stateBytesMax) throw new Error(`${file} would grow too large`);
  await replaceSecretFile(file, text);
}
