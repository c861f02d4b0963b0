import { open, rm } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { parse, YAMLParseError } from 'yaml';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { CommandError, UsageError } from './call-api.ts';
import { cliLimits } from './limits.ts';
import type { Input } from './prompt.ts';

/** The text of a file; `-`: of standard input. Throws UsageError. */
export async function readInput(path: string, stdin: Input): Promise<string> {
  if (path === '-') {
    if (stdin.isTTY === true)
      throw new UsageError('- reads standard input, and that is a terminal: name a file.');
    return boundInput(path, await text(stdin));
  }
  try {
    const handle = await open(path);
    try {
      const { size } = await handle.stat();
      if (size > cliLimits.inputBytesMax) throw tooLong(path);
      return boundInput(path, await handle.readFile('utf8'));
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new UsageError(`${path} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

/** A pipe says its length only at its end. */
function boundInput(path: string, content: string): string {
  if (content.length > cliLimits.inputBytesMax) throw tooLong(path);
  return content;
}

const tooLong = (path: string): UsageError =>
  new UsageError(`${path} is over ${cliLimits.inputBytesMax / 1024 / 1024} MiB long.`);

/** A body of the API as YAML or JSON. Throws UsageError. */
export async function readBody(path: string, stdin: Input): Promise<JsonObject> {
  const content = await readInput(path, stdin);
  let value: unknown;
  try {
    value = parse(content);
  } catch (error) {
    const where = error instanceof YAMLParseError ? error.message : 'it cannot be read';
    throw new UsageError(`${path} is neither YAML nor JSON: ${where}`);
  }
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
    throw new UsageError(`${path} cannot be written: ${error instanceof Error ? error.message : error}`);
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
  path: string | null,
  name: keyof Made & string,
  make: () => Promise<Made>,
): Promise<object> {
  if (path === null) return make();
  const file = await newSecretFile(path);
  try {
    const { [name]: secret, ...rest } = await make();
    if (typeof secret !== 'string') return rest;
    try {
      await file.write(secret);
      return rest;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new CommandError(
        `${path} cannot be written: ${why}. The ${name} is lost: roll it, or make another.`,
      );
    }
  } finally {
    await file.close();
  }
}
