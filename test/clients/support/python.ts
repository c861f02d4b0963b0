import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { sharedService } from '../../support/run/shared-services.ts';
import { root } from './installed-client.ts';

const run = promisify(execFile);

/** The folder that has to be in PYTHONPATH for `import agent_trust`. */
export const pythonFolder = join(root, 'clients/python');

/** That of Debian, and the one on PATH if it is another one: those of them that are 3.11 or newer. */
export async function pythons(): Promise<readonly [string, ...string[]]> {
  const script = 'import sys; assert sys.version_info >= (3, 11); print(sys.executable)';
  const paths = await Promise.all(
    [await sharedService('python3'), 'python3'].map(async (command) => {
      const found = await run(command, ['-c', script]).catch(() => null);
      return found?.stdout.trim() ?? null;
    }),
  );
  const [first, ...others] = new Set(paths.filter((path) => path !== null));
  if (first === undefined) throw new Error('These tests need Python 3.11 or newer, as Debian 12 has it.');
  return [first, ...others];
}

/** Nothing of the developer's shell, and no file of compiled code beside the sources. */
export const pythonEnv = (more: Readonly<Record<string, string>>): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  PYTHONPATH: pythonFolder,
  PYTHONDONTWRITEBYTECODE: '1',
  ...more,
});

/** Runs the file `tests/<name>.py` of the Python client; throws with what it printed unless it passes. */
export async function runUnittest(
  python: string,
  name: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const args = ['-W', 'error::ResourceWarning', '-m', 'unittest', `tests.${name}`];
  try {
    const { stderr } = await run(python, args, { cwd: pythonFolder, env: pythonEnv(env) });
    return stderr;
  } catch (error) {
    throw new Error((error as { stderr?: string }).stderr ?? String(error));
  }
}
