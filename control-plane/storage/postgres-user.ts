import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { StartError } from '../../shared/runtime/start-error.ts';

const run = promisify(execFile);

/** An unprivileged user of this system. */
export interface SystemUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const postgresUserName = 'postgres';

/**
 * PostgreSQL refuses to run as root. Null: we are not root, and it runs as our user. As root: the system's
 * `postgres` user, which is made where it is missing. Throws where that cannot be done.
 */
export async function postgresUser(): Promise<SystemUser | null> {
  if (process.getuid?.() !== 0) return null;
  const known = await findUser(postgresUserName);
  if (known !== null) return known;
  try {
    await run('useradd', [
      '--system',
      '--user-group',
      '--no-create-home',
      '--shell',
      '/usr/sbin/nologin',
      postgresUserName,
    ]);
  } catch (error) {
    // A second start at the same moment may have made it.
    const made = await findUser(postgresUserName);
    if (made !== null) return made;
    throw new StartError(
      `PostgreSQL refuses to run as root, and the user "${postgresUserName}" could not be made. ` +
        'Start as another user, or set DATABASE_URL.',
      { cause: error },
    );
  }
  const made = await findUser(postgresUserName);
  if (made === null) throw new StartError(`useradd made no user "${postgresUserName}".`);
  return made;
}

async function findUser(name: string): Promise<SystemUser | null> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]);
    return { name, uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    // `id` ends with 1 for an unknown user.
    return null;
  }
}

/**
 * The outermost folder on the way to `path`, itself included, that the user may not enter; null: it reaches
 * `path`. Asked of the system itself, as that user, so that access lists count as well as mode bits.
 */
export async function firstClosedFolder(user: SystemUser, path: string): Promise<string | null> {
  const folders = [path];
  for (let folder = path; dirname(folder) !== folder; folder = dirname(folder))
    folders.unshift(dirname(folder));
  const { stdout } = await run(
    '/bin/sh',
    [
      '-c',
      'for folder in "$@"; do [ -x "$folder" ] || { printf %s "$folder"; break; }; done',
      'sh',
      ...folders,
    ],
    { uid: user.uid, gid: user.gid, cwd: '/' },
  );
  return stdout === '' ? null : stdout;
}
