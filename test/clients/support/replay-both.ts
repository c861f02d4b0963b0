import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { ReplayReport } from '../../../shared/replay/replay.ts';
import { pythonEnv, pythonFolder, pythons } from './python.ts';

/** What one of the two programs made of an export. */
export interface Replayed {
  readonly program: 'ours' | 'python';
  readonly code: number | null;
  readonly report: ReplayReport;
  readonly seconds: number;
  /** At most, in MiB, where the system tells it (proc(5)); else 0. */
  readonly peakMib: number;
}

/** Both programs, one after the other, each in a process of its own. */
export async function replayBoth(
  files: { readonly file: string; readonly jwks: string },
  /** Of the bundle (`sharedService`). */
  bundle: string,
): Promise<readonly [ours: Replayed, theirs: Replayed]> {
  const args = [files.file, '--jwks', files.jwks, '--json'];
  const [python] = await pythons();
  const script = join(bundle, 'deploy/agent-trust.js');
  const ours = spawn(process.execPath, [script, 'attestations', 'replay', ...args]);
  const first = await outcomeOf('ours', ours);
  const theirs = spawn(python, ['-m', 'agent_trust.replay', ...args], {
    cwd: pythonFolder,
    env: pythonEnv({}),
  });
  return [first, await outcomeOf('python', theirs)];
}

/**
 * Writes a file of at least so many records: the lines of an export again and again, each time about other
 * passports, gates and records. Nothing in it is signed anew, so it does not verify.
 */
export async function repeatExport(file: string, into: string, records: number): Promise<number> {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const own = lines.filter((line) => line.includes('"resolution":')).length;
  const copies = Math.ceil(records / own);
  const ids = /\b((?:pass|gate|att|appr|sappr)_[0-9a-z]{22})[0-9a-z]{4}\b/g;
  async function* pieces(): AsyncGenerator<string> {
    for (let copy = 0; copy < copies; copy++) {
      // Digits that an id may have, which has no i, l, o and u.
      const end = copy.toString(16).padStart(4, '0');
      for (let from = 0; from < lines.length; from += 1_000) {
        const piece = lines.slice(from, from + 1_000).join('\n');
        yield `${piece.replace(ids, `$1${end}`)}\n`;
      }
    }
  }
  await pipeline(pieces, createWriteStream(into));
  return copies * own;
}

/** As `replayBoth`, of a file that does not verify. */
export async function replayBothUnverified(
  file: string,
): Promise<readonly [ours: Replayed, theirs: Replayed]> {
  const [python] = await pythons();
  const script = join(import.meta.dirname, 'replay-unverified.ts');
  const first = await outcomeOf('ours', spawn(process.execPath, ['--import', 'tsx', script, file]));
  const args = [join(import.meta.dirname, 'replay_unverified.py'), file];
  const theirs = spawn(python, args, { cwd: pythonFolder, env: pythonEnv({}) });
  return [first, await outcomeOf('python', theirs)];
}

export const toldOf = ({ program, seconds, peakMib }: Replayed): string =>
  `${program}: ${seconds.toFixed(1)} s, ${peakMib.toFixed(0)} MiB.`;

async function outcomeOf(program: Replayed['program'], child: ChildProcess): Promise<Replayed> {
  const startedAtMs = performance.now();
  let [out, errors, peakMib] = ['', '', 0];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const watch = setInterval(() => {
    peakMib = Math.max(peakMib, peakOf(child.pid));
  }, 100);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearInterval(watch);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  if (out === '') throw new Error(`${program} ended with ${code}:\n${errors}`);
  return { program, code, report: JSON.parse(out), seconds, peakMib };
}

function peakOf(pid: number | undefined): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1_024;
  } catch {
    // It has ended, or this is another system.
    return 0;
  }
}
