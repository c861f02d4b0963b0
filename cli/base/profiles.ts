import { chmod, lstat, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { messageOf } from '../../shared/errors/message-of.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import { replaceSecretFile } from '../../shared/runtime/secret-file.ts';
import type { Environment } from '../../shared/runtime/settings.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import { CommandError, UsageError } from './call-api.ts';
import { cliLimits } from './limits.ts';

/** A service and a key for it, under a name of the user's. */
export interface Profile {
  readonly url: string;
  /** A secret: never shown. */
  readonly api_key: string;
  /** Those of the key, which never change. Absent: a version before has stored it. */
  readonly scopes?: readonly string[];
}

/** `$XDG_CONFIG_HOME/agent-trust/config.json`. */
export interface Profiles {
  /** The profile of commands that name none; null: there is none. */
  readonly current: string | null;
  readonly profiles: Readonly<Record<string, Profile>>;
}

const ProfilesFile = Compile(
  Type.Object(
    {
      current: Type.Union([Type.String(), Type.Null()]),
      profiles: Type.Record(
        Type.String(),
        Type.Object(
          {
            url: Type.String(),
            api_key: Type.String(),
            scopes: Type.Optional(Type.Array(Type.String())),
          },
          { additionalProperties: false },
        ),
      ),
    },
    { additionalProperties: false },
  ),
);

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Throws UsageError for a name that is none. */
export function checkProfileName(name: string): string {
  if (namePattern.test(name) && name !== '__proto__') return name;
  throw new UsageError(
    `A profile has a name of up to 64 letters, digits, dots, dashes and underscores, not "${name}".`,
  );
}

/** Null: there is neither XDG_CONFIG_HOME nor HOME. */
function folderOf(env: Environment): string | null {
  const xdg = env['XDG_CONFIG_HOME'];
  // A relative one is to be ignored (XDG Base Directory Specification).
  if (xdg?.startsWith('/')) return join(xdg, 'agent-trust');
  return env['HOME'] ? join(env['HOME'], '.config', 'agent-trust') : null;
}

/**
 * Reads the profiles; none without a file. Throws UsageError for a file that other users may read or write:
 * it holds keys, and a service in it gets the key.
 */
export async function readProfiles(env: Environment): Promise<Profiles> {
  const folder = folderOf(env);
  const none: Profiles = { current: null, profiles: {} };
  if (folder === null) return none;
  const file = join(folder, 'config.json');
  if (!(await isPrivate(folder, 0o700)) || !(await isPrivate(file, 0o600))) return none;
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new UsageError(`${file} cannot be read: ${error.message}`);
  });
  const value = parse(text);
  if (ProfilesFile.Check(value)) return value;
  throw new UsageError(`${file} is not what agent-trust login writes. Move it away and log in again.`);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // As wrong as any other content.
    return null;
  }
}

/** False: it is not there. Throws UsageError where more than its owner can use it. */
async function isPrivate(path: string, mode: 0o600 | 0o700): Promise<boolean> {
  const found = await lstat(path).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return null;
    throw new UsageError(`${path} cannot be read: ${messageOf(error)}`);
  });
  if (found === null) return false;
  if (mode === 0o700 ? !found.isDirectory() : !found.isFile())
    throw new UsageError(`${path} must be a ${mode === 0o700 ? 'folder' : 'file'}, and not a link to one.`);
  const me = process.geteuid?.();
  if (me !== undefined && found.uid !== me) throw new UsageError(`${path} belongs to another user.`);
  if ((found.mode & 0o077) === 0) return true;
  const octal = (found.mode & 0o777).toString(8).padStart(4, '0');
  throw new UsageError(
    `${path} is open to other users (${octal}), and holds API keys. Run chmod 0${mode.toString(8)} ${path}, and roll the keys.`,
  );
}

/** Writes all of them, as one file in the place of the last. */
export async function writeProfiles(env: Environment, profiles: Profiles): Promise<string> {
  const folder = folderOf(env);
  if (folder === null) throw new UsageError('Set HOME or XDG_CONFIG_HOME: profiles are kept there.');
  if (Object.keys(profiles.profiles).length > cliLimits.profilesMax)
    throw new UsageError(`There are at most ${cliLimits.profilesMax} profiles. Remove one first.`);
  const file = join(folder, 'config.json');
  try {
    await makeFolder(join(folder, '..'));
    await mkdir(folder, { mode: 0o700 }).then(
      // The umask may have taken bits of the owner's.
      () => chmod(folder, 0o700),
      (error: unknown) => {
        if (!hasCode(error, 'EEXIST')) throw error;
      },
    );
    await isPrivate(folder, 0o700);
    await replaceSecretFile(file, JSON.stringify(profiles, null, 2));
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${file} cannot be written: ${messageOf(error)}`);
  }
  return file;
}
