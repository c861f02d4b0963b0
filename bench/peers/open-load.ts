import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { must } from '../../shared/errors/assert.ts';
import { Absences, CoreWaits, othersRanMsOf, waitedMsOf } from '../harness/absences.ts';
import { emptyHistogram, note } from '../harness/histogram.ts';
import { splitRequests } from '../harness/requests.ts';

/**
 * Load at a fixed rate, however late the answers are:
 *
 *     open-load.ts PORT SERVER_PID WARM_SECONDS SECONDS FILE RATE [FILE RATE]
 *
 * The requests of each file (harness/requests.ts) are due at equal distances and sent in turn over
 * connections of their own; one that finds no connection free waits, and its time counts from the moment it
 * was due. So a server that pauses is charged for all that should have come meanwhile.
 *
 * The same load comes before, for WARM_SECONDS, and counts nowhere: until its code is compiled, this process
 * is late itself.
 *
 * Prints `RESULT` and, as JSON, of each file how many were due, answered and permitted in time, the histogram
 * of all times, and how late this process looked for what was due. It never sleeps while load is due: a timer
 * of a millisecond would be most of what it measures.
 *
 * A request due or under way while this process was away (harness/absences.ts) is late because of that,
 * whatever its time is. So there are two more histograms: of requests with the generator present throughout,
 * and of all, each less the generator's absences. Two more figures: how long the server waited for its core,
 * and how long its own other threads ran meanwhile.
 */
const [port = '', serverPid = '', warmSeconds = '', seconds = '', ...files] = process.argv.slice(2);
const connectionsEach = 64;
/** After the last due request; answers that come later do not count. */
const waitMsMax = 5_000;
/** An agent waits no longer. */
const inTimeMs = 1_000;

interface Exchange {
  socket: Socket;
  /** Null: free. */
  dueMs: number | null;
  isCounted: boolean;
  received: Buffer;
}

class Load {
  /** The counts below are of these, without the warm-up. */
  readonly due: number;
  answered = 0;
  permittedInTime = 0;
  readonly times = emptyHistogram();
  readonly lateness = emptyHistogram();
  readonly watched = emptyHistogram();
  readonly lessAbsences = emptyHistogram();
  readonly #requests: readonly Buffer[];
  readonly #everyMs: number;
  readonly #warming: number;
  readonly #total: number;
  #dueByNow = 0;
  #sent = 0;
  #ended = 0;
  readonly #free: Exchange[] = [];

  constructor(file: string, perSecond: number) {
    this.#requests = splitRequests(readFileSync(file));
    this.#everyMs = 1_000 / perSecond;
    this.due = Math.floor(Number(seconds) * perSecond);
    this.#warming = Math.floor(Number(warmSeconds) * perSecond);
    this.#total = this.#warming + this.due;
  }

  async open(): Promise<void> {
    await Promise.all(Array.from({ length: connectionsEach }, () => this.#connect()));
  }

  async #connect(): Promise<void> {
    const socket = connect(Number(port), '127.0.0.1').setNoDelay();
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    const exchange: Exchange = { socket, dueMs: null, isCounted: false, received: Buffer.alloc(0) };
    socket.on('data', (piece) => this.#receive(exchange, piece));
    socket.on('close', () => {
      throw new Error('the server has closed a connection');
    });
    this.#free.push(exchange);
  }

  /** Sends what is due by now, as far as there are free connections. */
  send(startMs: number): void {
    const nowMs = performance.now();
    absences.look(nowMs);
    const due = Math.min(this.#total, Math.floor((nowMs - startMs) / this.#everyMs) + 1);
    // Also requests without a free connection: the server may be the reason.
    for (; this.#dueByNow < due; this.#dueByNow += 1)
      if (this.#dueByNow >= this.#warming)
        note(this.lateness, nowMs - (startMs + this.#dueByNow * this.#everyMs));
    while (this.#sent < due) {
      absences.look(performance.now());
      const exchange = this.#free.pop();
      if (exchange === undefined) return;
      exchange.dueMs = startMs + this.#sent * this.#everyMs;
      exchange.isCounted = this.#sent >= this.#warming;
      exchange.socket.write(must(this.#requests[this.#sent % this.#requests.length], 'there are requests'));
      this.#sent += 1;
    }
  }

  get isOver(): boolean {
    return this.#ended === this.#total;
  }

  #receive(exchange: Exchange, piece: Buffer): void {
    const nowMs = performance.now();
    absences.look(nowMs);
    const bytes = exchange.received.length === 0 ? piece : Buffer.concat([exchange.received, piece]);
    const headEnd = bytes.indexOf('\r\n\r\n');
    const length = headEnd < 0 ? null : /content-length: (\d+)/i.exec(bytes.toString('latin1', 0, headEnd));
    if (length === null || bytes.length < headEnd + 4 + Number(length[1])) {
      exchange.received = bytes;
      return;
    }
    const dueMs = must(exchange.dueMs, 'an answer belongs to a request');
    const timeMs = nowMs - dueMs;
    this.#ended += 1;
    if (exchange.isCounted) {
      this.answered += 1;
      note(this.times, timeMs);
      const awayMs = absences.sinceMs(dueMs);
      if (awayMs === 0) note(this.watched, timeMs);
      note(this.lessAbsences, timeMs - awayMs);
      if (timeMs <= inTimeMs && bytes.includes('"decision":"PERMIT"')) this.permittedInTime += 1;
    }
    exchange.dueMs = null;
    exchange.received = Buffer.alloc(0);
    this.#free.push(exchange);
  }
}

const absences = new Absences(performance.now());
const loads: Load[] = [];
for (let i = 0; i < files.length; i += 2) loads.push(new Load(files[i] ?? '', Number(files[i + 1])));
for (const load of loads) await load.open();
const waits = new CoreWaits(waitedMsOf(serverPid));
const cpuBefore = process.cpuUsage();
const startMs = performance.now();
const countedMs = startMs + Number(warmSeconds) * 1_000;
const serverTimes = () => ({ waitedMs: waits.sumMs, othersRanMs: othersRanMsOf(serverPid) });
let before = serverTimes();
let isCounted = false;
const endMs = startMs + (Number(warmSeconds) + Number(seconds)) * 1_000 + waitMsMax;
await new Promise<void>((resolve) => {
  const turn = () => {
    const nowMs = performance.now();
    waits.look(nowMs);
    if (!isCounted && nowMs >= countedMs) {
      isCounted = true;
      before = serverTimes();
    }
    for (const load of loads) load.send(startMs);
    if (loads.every(({ isOver }) => isOver) || performance.now() > endMs) resolve();
    else setImmediate(turn);
  };
  turn();
});
const { user, system } = process.cpuUsage(cpuBefore);
const results = loads.map(({ due, answered, permittedInTime, times, lateness, watched, lessAbsences }) => ({
  ...{ due, answered, permittedInTime, times: [...times], lateness: [...lateness] },
  ...{ watched: [...watched], lessAbsences: [...lessAbsences] },
}));
const after = serverTimes();
const result = {
  loads: results,
  cpuSeconds: (user + system) / 1e6,
  waitedMs: after.waitedMs - before.waitedMs,
  othersRanMs: after.othersRanMs - before.othersRanMs,
};
console.log(`RESULT ${JSON.stringify(result)}`);
process.exit(0);
