import { open, rm } from 'node:fs/promises';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { readPlainFile } from '../../shared/runtime/plain-file.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { CommandError, reasonOf, UsageError } from './call-api.ts';
import { cliLimits } from './limits.ts';
import type { Input } from './prompt.ts';
import { readYaml } from './read-yaml.ts';

/** The text of a file; `-`: of standard input. Throws UsageError. */
export async function readInput(path: string, stdin: Input): Promise<string> {
  if (path === '-' && stdin.isTTY === true)
    throw new UsageError('- reads standard input, and that is a terminal: name a file.');
  try {
    const bytes = await (path === '-'
      ? readStream(stdin)
      : readPlainFile(path, cliLimits.inputBytesMax, ['link', 'pipe']));
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    const why = error instanceof TypeError ? 'it is not UTF-8' : reasonOf(error);
    throw new UsageError(`${path} cannot be read: ${why}.`);
  }
}

async function readStream(stdin: Input): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of stdin) {
    pieces.push(Buffer.from(piece));
    bytes += Buffer.byteLength(piece);
    if (bytes > cliLimits.inputBytesMax)
      throw new Error(`it is larger than ${cliLimits.inputBytesMax} bytes`);
  }
  return Buffer.concat(pieces);
}

/** A body of the API as YAML or JSON. Throws UsageError. */
export async function readBody(path: string, stdin: Input): Promise<JsonObject> {
  const { value } = readYaml(path, await readInput(path, stdin));
  if (isJsonObject(value)) return value;
  throw new UsageError(`${path} must hold the members of a body, such as: name: Orders`);
}

/** A file for a secret that is shown once. It exists before the secret does. */
export interface SecretFile {
  /** Writes it, and has it on disk. */
  write(secret: string): Promise<void>;
  /** Closes the file, and removes it where nothing was written. */
  close(): Promise<void>;
}

/**
 * Makes a new file for its owner alone. Throws UsageError where one is there already: it may hold a secret
 * that is nowhere else.
 */
async function newSecretFile(path: string): Promise<SecretFile> {
  const handle = await open(path, 'wx', 0o600).catch((error: unknown) => {
    if (hasCode(error, 'EEXIST')) throw new UsageError(`${path} exists. Name a new file for the secret.`);
    throw new UsageError(`${path} cannot be written: ${messageOf(error)}`);
  });
  let isEmpty = true;
  return {
    write: async (secret) => {
      isEmpty = false;
      await handle.writeFile(`${secret}\n`);
      await handle.sync();
    },
    close: async () => {
      await handle.close();
      if (isEmpty) await rm(path, { force: true });
    },
  };
}

/**
 * Makes something that comes with a secret. With a path the secret goes into a new file there, and is left
 * out of what is returned.
 */
export async function keepSecret<Made extends object>(
  path: string | undefined,
  name: keyof Made & string,
  make: () => Promise<Made>,
): Promise<object> {
  if (path === undefined) return make();
  const file = await newSecretFile(path);
  try {
    const { [name]: secret, ...rest } = await make();
    if (typeof secret !== 'string') return rest;
    try {
      await file.write(secret);
      return rest;
    } catch (error) {
      const why = messageOf(error);
      throw new CommandError(
        `${path} cannot be written: ${why}. The ${name} is lost: roll it, or make another.`,
      );
    }
  } finally {
    await file.close();
  }
}
