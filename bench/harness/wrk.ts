import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { otherCore } from './cores.ts';
import { findProgram } from './programs.ts';
import { lengthDigits, rawRequests, type Sent } from './requests.ts';

const run = promisify(execFile);

/** Enough to keep a server busy that answers late in a turn; few enough for one core to drive. */
export const connectionsUsual = 64;

/** What a load generator has done. */
export interface Driven {
  /** Of the unit of the table: requests, or decisions where one request asks for several. */
  readonly done: number;
  /** From the first request to the last answer. */
  readonly seconds: number;
  /** Processor time of the generator itself. */
  readonly generatorCpuSeconds: number;
}

/** Why there is no load generator; null: there is one. */
export const lackOfWrk = (): string | null =>
  findProgram('wrk') === null
    ? 'The load generator wrk is not installed (Debian: apt-get install wrk).'
    : null;

/** The request that wrk repeats. */
export interface Load extends Sent {
  /** Sent in turn, in the place of the one request. */
  readonly variety?: readonly Sent[];

  /** Where the script for wrk may be written. */
  readonly scriptPath: string;
  /** On which wrk runs, as taskset(1) takes them; default: the other core. */
  readonly cores?: string;
  /**
   * Before all others on these cores, where the system lets it (root): waiting for the generator's turn is
   * not measured. Default: no.
   */
  readonly goesFirst?: boolean;
  /** What the answer to a permitted request holds; default: the decision PERMIT. */
  readonly permit?: string;
  /**
   * PERMITs that each answer must hold; wrk reads the whole answer. Absent: the status is enough, because the
   * answer is constant or the server counts its decisions (permits.ts).
   */
  readonly permitsEach?: number;
  /** Kept open, each with one request under way; default 64. */
  readonly connections?: number;
}

/** As JSON without spaces has it. */
export const permitOf = ({ permit = '"decision":"PERMIT"' }: Pick<Load, 'permit'>): string => permit;

/**
 * Repeats the request over kept connections, a closed loop, for so long. Throws when any of them failed.
 */
export async function drive(load: Load, seconds: number): Promise<Driven> {
  writeFileSync(load.scriptPath, script(load));
  if (load.variety !== undefined) writeFileSync(`${load.scriptPath}.requests`, rawRequests(load.variety));
  const { stdout } = await run('taskset', [
    ...['-c', load.cores ?? String(otherCore), ...(load.goesFirst === true ? ['nice', '-n', '-15'] : [])],
    ...[...wrkFor(seconds), '--threads', '1', '--timeout', '5s'],
    ...['--connections', String(load.connections ?? connectionsUsual)],
    ...['--script', load.scriptPath, load.url],
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

/** Runs the caller's script in a closed loop; accepts any answer. */
export async function loadWith(load: {
  readonly url: string;
  readonly scriptPath: string;
  readonly connections: number;
  readonly seconds: number;
}): Promise<void> {
  await run('taskset', [
    ...['-c', String(otherCore), ...wrkFor(load.seconds), '--threads', '1', '--timeout', '5s'],
    ...['--connections', String(load.connections), '--script', load.scriptPath, load.url],
  ]);
}

/** wrk knows whole seconds alone; a signal ends it in order, at its next look after a tenth of a second. */
const wrkFor = (seconds: number): readonly string[] => [
  ...(Number.isInteger(seconds) ? [] : ['timeout', '--preserve-status', '--signal=INT', String(seconds)]),
  ...['wrk', '--duration', `${Math.ceil(seconds)}s`],
];

function script(load: Load): string {
  const { headers, body, permitsEach, scriptPath, variety } = load;
  const lines = Object.entries(headers).map(
    ([name, value]) => `wrk.headers[ ${quoted(name)} ] = ${quoted(value)}`,
  );
  return `wrk.method = "POST"
wrk.body = ${quoted(body)}
${lines.join('\n')}
wrong = 0
${permitsEach === undefined ? '' : countPermits(permitOf(load), permitsEach)}
${variety === undefined ? '' : takeTurns(`${scriptPath}.requests`)}
local only
function setup(thread) only = thread end
function done(summary)
  local e = summary.errors
  local errors = e.connect + e.read + e.write + e.status + e.timeout + only:get("wrong")
  local cpu = os.clock() * 1e6
  ${variety === undefined ? '' : keepTurn(`${scriptPath}.requests.turn`)}
  io.write(string.format("RESULT %d %d %d %d\\n", summary.requests, summary.duration, cpu, errors))
end
`;
}

/** Counts in `wrong` the answers that hold another number of PERMITs. */
const countPermits = (permit: string, permitsEach: number): string => `
function response(status, headers, body)
  local found, from = 0, 1
  while from ~= nil do
    local _, last = string.find(body, ${quoted(permit)}, from, true)
    from = last and last + 1
    if last ~= nil then found = found + 1 end
  end
  if found ~= ${permitsEach} then wrong = wrong + 1 end
end
`;

/** All connections share the turns; the next run continues where this one ends. */
const takeTurns = (path: string): string => `
local file = io.open(${quoted(path)}, "rb")
local requests = {}
while true do
  local length = file:read(${lengthDigits})
  if length == nil then break end
  requests[#requests + 1] = file:read(tonumber(length))
end
file:close()
turn = 0
local last = io.open(${quoted(`${path}.turn`)}, "r")
if last ~= nil then
  turn = tonumber(last:read())
  last:close()
end
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
`;

const keepTurn = (path: string): string =>
  `local last = io.open(${quoted(path)}, "w") last:write(only:get("turn")) last:close()`;

/** A long bracket of Lua has no escapes. */
const quoted = (text: string): string => `[==[${text}]==]`;
