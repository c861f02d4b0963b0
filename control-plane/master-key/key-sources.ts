import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import { masterKeyBytes } from '../../shared/crypto/seal.ts';
import { readOrMakeSecretFile, readSecretFile } from '../../shared/runtime/secret-file.ts';
import type { SettingValues } from '../../shared/runtime/settings.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { BaseDeps } from '../base/deps.ts';
import { readChecks } from './installation-store.ts';
import { masterKeyLimits } from './limits.ts';
import { MasterKeyError } from './master-key.ts';

/** The master keys of this process. */
export interface MasterKeys {
  /** Seals. */
  readonly own: Uint8Array;
  /** Open what they have sealed. */
  readonly fallbacks: readonly Uint8Array[];
}

/** Where master keys come from: a file of DATA_DIR, or a program that asks a KMS. Read once, at the start. */
export interface KeySource {
  /** Throws StartError. */
  read(): Promise<Uint8Array>;
}

/** What the settings say, each from its own source. Throws StartError. */
export async function masterKeysOf(
  {
    MASTER_KEY,
    MASTER_KEY_COMMAND,
    MASTER_KEY_FALLBACKS,
  }: Pick<SettingValues, 'MASTER_KEY' | 'MASTER_KEY_COMMAND' | 'MASTER_KEY_FALLBACKS'>,
  file: KeySource,
): Promise<MasterKeys> {
  const source = MASTER_KEY_COMMAND === null ? file : commandKeySource(MASTER_KEY_COMMAND);
  const own = MASTER_KEY ?? (await source.read());
  const fallbacks = MASTER_KEY_FALLBACKS ?? [];
  return { own, fallbacks: fallbacks.filter((each) => !Buffer.from(each).equals(own)) };
}

/**
 * MASTER_KEY of an installation with an embedded database: `<dataDir>/master-key`, 0600, made on the first
 * start. Never made for a database that was set up with another one: the new file would only hide that the
 * old one is lost. `read` throws MasterKeyError.
 */
export const fileKeySource = (
  dataDir: string,
  { sql, random }: Pick<BaseDeps, 'sql' | 'random'>,
): KeySource => ({
  read: async () => {
    const path = join(dataDir, 'master-key');
    if ((await readSecretFile(path)) === null && (await readChecks(sql)).length > 0) {
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
  },
});

/**
 * MASTER_KEY_COMMAND: the standard output of a program, as base64url or base64. It runs without a shell, with
 * the environment of this process, and must end by itself. Its standard error is not read: it may repeat what
 * the program holds.
 */
export const commandKeySource = (
  command: readonly [string, ...string[]],
  msMax: number = masterKeyLimits.commandMsMax,
): KeySource => ({
  read: async () => {
    const wrong = (problem: string) =>
      new StartError(
        `MASTER_KEY_COMMAND ${problem}. Run ${command[0]} by hand, as this user, to see what it says.`,
      );
    const key = readKey((await outputOf(command, { wrong, msMax })).trim());
    if (key === null) throw wrong('must print one key of 32 bytes as base64url or base64, and nothing else');
    return key;
  },
});

/** Base64 as well, because a KMS decrypts to bytes and its program prints them so. */
const readKey = (text: string): Uint8Array | null => {
  const key = decodeBase64url(text.replaceAll('+', '-').replaceAll('/', '_').replace(/=$/, ''));
  return key?.length === masterKeyBytes ? key : null;
};

function outputOf(
  [program, ...args]: readonly [string, ...string[]],
  { wrong, msMax }: { readonly wrong: (problem: string) => StartError; readonly msMax: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    // A process group of its own, so that what it has started ends with it.
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], detached: true, shell: false });
    const chunks: Buffer[] = [];
    let bytes = 0;
    let problem: string | null = null;
    const stop = (because: string) => {
      problem ??= because;
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended meanwhile.
      }
      child.stdout.destroy();
    };
    const timer = setTimeout(() => stop(`has not ended within ${msMax / 1_000} s`), msMax);
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > masterKeyLimits.commandOutputBytesMax)
        return stop(`has printed more than ${masterKeyLimits.commandOutputBytesMax} bytes`);
      chunks.push(chunk);
    });
    child.on('error', (error) => {
      clearTimeout(timer);
      const code = 'code' in error ? String(error.code) : 'unknown error';
      reject(wrong(`cannot be run (${code})`));
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (problem === null && code !== 0)
        problem = code === null ? `was ended by ${signal}` : `has ended with exit code ${code}`;
      if (problem === null) resolve(Buffer.concat(chunks).toString('utf8'));
      else reject(wrong(problem));
    });
  });
}
