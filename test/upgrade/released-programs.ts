import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Programs, programsIn } from '../support/programs/programs.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Release {
  readonly version: string;
  readonly commit: string;
}

/** The version that today's has to work beside. */
export const releaseBefore: Release = {
  version: '0.3.0',
  commit: 'ef1be908d773f07438199c395de172f692ba69bc',
};

/**
 * The programs of a release, built from its commit. The build is made once and kept outside of the project,
 * in the user's cache, by its commit. Throws with one sentence where the history of this clone lacks it.
 */
export async function releasedPrograms(
  { version, commit }: Release,
  say: (line: string) => void,
): Promise<Programs> {
  const place = join(cacheFolder(), `${version}-${commit.slice(0, 12)}`);
  const built = join(place, 'dist');
  if (existsSync(built)) return programsIn(built);
  await run('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).catch(() => {
    throw new Error(
      `This needs the history of the project: commit ${commit}, which is ${version}, is not in this clone. Run: git fetch --unshallow`,
    );
  });
  await mkdir(dirname(place), { recursive: true });
  const making = await mkdtemp(`${place}-`);
  try {
    await build({ version, commit }, making, say);
    // Two runs at once: whoever is second throws its own away.
    await rename(making, place).catch((error: unknown) => {
      if (!existsSync(built)) throw error;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return programsIn(built);
}

function cacheFolder(): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  return join(existsSync(dirname(cache)) ? cache : tmpdir(), 'agent-trust', 'releases');
}

/** Bounds what is stuck: a slow machine takes two minutes for all of it. */
const commandMsMax = 10 * 60_000;
const outputBytesMax = 64 * 1024 * 1024;

async function build(
  { version, commit }: Release,
  folder: string,
  say: (line: string) => void,
): Promise<void> {
  const at = (command: string, args: readonly string[], cwd: string) =>
    run(command, [...args], { cwd, timeout: commandMsMax, maxBuffer: outputBytesMax });
  say(`${version} is built once, from commit ${commit.slice(0, 12)}: its files`);
  const archive = `${folder}.tar`;
  await at('git', ['archive', '--output', archive, commit], root);
  await at('tar', ['-xf', archive, '-C', folder], root);
  await rm(archive);
  say(`${version}: its dependencies (npm ci)`);
  await at('npm', ['ci', '--no-audit', '--no-fund', '--prefer-offline'], folder);
  say(`${version}: its programs`);
  await at('npm', ['run', '-s', 'build'], folder);
  // All that they need is among them.
  await rm(join(folder, 'node_modules'), { recursive: true });
}
