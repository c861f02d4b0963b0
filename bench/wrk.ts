import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Driven } from './charged-side.ts';
import { otherCore } from './programs.ts';

const run = promisify(execFile);

/** Enough that a server which answers later in the turn always has work; few enough for one core to drive. */
const connections = 64;

/** The request that wrk repeats. */
export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Where the script for wrk may be written. */
  readonly scriptPath: string;
  /** PERMITs that each answer must hold, for which wrk reads all of it. Absent: its status is enough. */
  readonly permitsEach?: number;
}

/**
 * Repeats the request over kept connections, a closed loop, for so long. Throws when any of them failed.
 */
export async function drive(load: Load, seconds: number): Promise<Driven> {
  writeFileSync(load.scriptPath, script(load));
  const { stdout } = await run('taskset', [
    ...['-c', String(otherCore), 'wrk', '--threads', '1', '--connections', String(connections)],
    ...['--duration', `${seconds}s`, '--script', load.scriptPath, load.url],
  ]);
  const [, requests, microseconds, cpuMicroseconds, errors] =
    /^RESULT (\d+) (\d+) (\d+) (\d+)$/m.exec(stdout) ?? [];
  if (requests === undefined) throw new Error(`wrk said nothing that can be read:\n${stdout}`);
  if (errors !== '0') throw new Error(`${errors} of ${requests} requests to ${load.url} failed`);
  return {
    done: Number(requests),
    seconds: Number(microseconds) / 1e6,
    generatorCpuSeconds: Number(cpuMicroseconds) / 1e6,
  };
}

/**
 * Runs a script of its own, a closed loop; what comes of it is read elsewhere, and no answer counts as a
 * failure.
 */
export async function loadWith(load: {
  readonly url: string;
  readonly scriptPath: string;
  readonly connections: number;
  readonly seconds: number;
}): Promise<void> {
  await run('taskset', [
    ...['-c', String(otherCore), 'wrk', '--threads', '1', '--connections', String(load.connections)],
    ...['--duration', `${load.seconds}s`, '--timeout', '5s', '--script', load.scriptPath, load.url],
  ]);
}

function script({ headers, body, permitsEach }: Load): string {
  const lines = Object.entries(headers).map(
    ([name, value]) => `wrk.headers[ ${quoted(name)} ] = ${quoted(value)}`,
  );
  return `wrk.method = "POST"
wrk.body = ${quoted(body)}
${lines.join('\n')}
wrong = 0
${permitsEach === undefined ? '' : countPermits(permitsEach)}
local only
function setup(thread) only = thread end
function done(summary)
  local e = summary.errors
  local errors = e.connect + e.read + e.write + e.status + e.timeout + only:get("wrong")
  local cpu = os.clock() * 1e6
  io.write(string.format("RESULT %d %d %d %d\\n", summary.requests, summary.duration, cpu, errors))
end
`;
}

/** Counts in `wrong` the answers that hold another number of PERMITs. */
const countPermits = (permitsEach: number): string => `
function response(status, headers, body)
  local found, from = 0, 1
  while from ~= nil do
    local _, last = string.find(body, '"decision":"PERMIT"', from, true)
    from = last and last + 1
    if last ~= nil then found = found + 1 end
  end
  if found ~= ${permitsEach} then wrong = wrong + 1 end
end
`;

/** A long bracket of Lua takes everything as it is. */
const quoted = (text: string): string => `[==[${text}]==]`;
