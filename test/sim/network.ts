import type { FromCaller } from '../../sidecar/replica/caller-messages.ts';
import type { Answer, Call, HttpCallerOptions } from '../../sidecar/replica/http-caller.ts';
import type { Chance } from './chance.ts';
import { type Process, theLoop } from './loop.ts';

/** A request as a server sees it. */
export interface Request {
  readonly path: string;
  readonly query: URLSearchParams;
  /** Null: GET. */
  readonly text: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** A proxy delivers it, and another delivery was or is answered. */
  readonly isRepeat: boolean;
  readonly isSenderAlive: () => boolean;
}

/** A replica of the control plane. Its answer, or null where the connection breaks first. */
export interface Server {
  readonly process: Process;
  /** Called in an event of the process; `reply` at any later one. */
  handle(request: Request, reply: (answer: Answer) => void): void;
}

export interface Weather {
  /** Of a message, each way. */
  readonly loses: number;
  /** A proxy delivers a request once more, later. */
  readonly repeats: number;
  readonly delayMsMax: number;
  /** Of a message that takes ten times as long. */
  readonly dawdles: number;
}

export const fair: Weather = { loses: 0, repeats: 0, delayMsMax: 5, dawdles: 0 };

/** Between a machine and the control plane. */
export type Cut = 'none' | 'silent' | 'refused' | 'answers lost';

/**
 * Between sidecars and control plane. A message may get lost, be late, come twice or be overtaken; a
 * connection that breaks says so or not.
 */
export class Network {
  weather: Weather = fair;
  readonly servers: Server[] = [];
  readonly #cuts = new Map<string, Cut>();
  readonly #chance: Chance;
  readonly counts = { calls: 0, lost: 0, repeated: 0 };

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  cut(machine: string, how: Cut): void {
    this.#cuts.set(machine, how);
  }

  cutOf(machine: string): Cut {
    return this.#cuts.get(machine) ?? 'none';
  }

  /** How long a message takes; null: it gets lost. */
  travelMs(): number | null {
    const { loses, delayMsMax, dawdles } = this.weather;
    if (this.#chance.happens(loses)) {
      this.counts.lost++;
      return null;
    }
    const slowness = this.#chance.happens(dawdles) ? 10 : 1;
    return this.#chance.between(0.1, delayMsMax) * slowness;
  }

  /** Returns what gives the call up. */
  call(
    from: Process,
    options: HttpCallerOptions,
    call: Call,
    onOver: (outcome: Outcome) => void,
  ): () => void {
    this.counts.calls++;
    const loop = theLoop();
    const sent = new Sent(call.body);
    let isOver = false;
    const end = (outcome: Outcome): void => {
      if (isOver) return;
      isOver = true;
      deadline.cancel();
      sent.keep();
      onOver(outcome);
    };
    const deadline = loop.schedule(from, call.timeMsMax, 'io', () =>
      end({ kind: 'failed', message: 'The operation was aborted due to timeout', code: null }),
    );
    const [path = '', query = ''] = call.path.split('?');
    const headers = { ...options.headers, ...call.headers };
    const request = (isRepeat: boolean) => (): Request => ({
      ...{ path, query: new URLSearchParams(query), text: sent.text(), headers, isRepeat },
      isSenderAlive: () => from.isAlive,
    });
    const cut = this.cutOf(from.machine.name);
    const server = this.#chance.pick(this.servers);
    const refuse = (): void => {
      loop.schedule(from, this.#chance.between(0.1, 2), 'io', () =>
        end({ kind: 'failed', message: 'connect ECONNREFUSED', code: 'ECONNREFUSED' }),
      );
    };
    const isRefused = cut === 'refused' || !server.process.isAlive;
    if (isRefused) refuse();
    else if (cut !== 'silent') this.#deliver(from, server, { path, request: request(false) }, end);
    // A refused connection has carried nothing that a proxy could repeat.
    if (!isRefused && cut !== 'silent' && this.#chance.happens(this.weather.repeats)) {
      this.counts.repeated++;
      const other = this.#chance.pick(this.servers);
      const again = { path: '', request: request(true) };
      const repeat = (): void => this.#deliver(from, other, again, () => undefined);
      loop.schedule(other.process, this.#chance.between(0, 4_000), 'io', repeat);
    }
    return () => {
      isOver = true;
      deadline.cancel();
      sent.keep();
    };
  }

  #deliver(
    from: Process,
    server: Server,
    { path, request }: { readonly path: string; readonly request: () => Request },
    end: (outcome: Outcome) => void,
  ): void {
    const loop = theLoop();
    const thereMs = this.travelMs();
    if (thereMs === null) return;
    loop.schedule(server.process, thereMs, 'io', () => {
      const asked = request();
      // One of a process that has died since would end the connection of its successor.
      if (asked.path === 'connect' && !from.isAlive) return;
      server.handle(asked, (answer) => {
        const backMs = this.travelMs();
        const cut = this.cutOf(from.machine.name);
        if (backMs === null || cut === 'silent' || cut === 'answers lost') return;
        const writtenAtMs = loop.nowMs;
        const isNews = answer.status === 200 && (path === 'changes' || path === 'snapshot');
        const saysTime = answer.status === 200 && (path === 'changes' || path === 'connect');
        loop.schedule(from, backMs, 'io', () => {
          from.knowsTime ||= saysTime;
          if (answer.status < 500) from.answeredAtMs = loop.nowMs;
          if (isNews) from.heardAtMs = Math.max(from.heardAtMs, writtenAtMs);
          end({ kind: 'answered', answer });
        });
      });
    });
  }
}

type Outcome = FromCaller extends infer Each ? (Each extends FromCaller ? Omit<Each, 'id'> : never) : never;

/**
 * The body of a call. Bytes in shared memory are read when they arrive, as a thread that still sends them
 * would; those of a call that is over are what they were then.
 */
class Sent {
  #body: string | Uint8Array | null;

  constructor(body: string | Uint8Array | null) {
    this.#body = body;
  }

  keep(): void {
    this.#body = this.text();
  }

  text(): string | null {
    const body = this.#body;
    return typeof body === 'string' || body === null ? body : Buffer.from(body).toString('utf8');
  }
}

let current: Network | null = null;

export function theNetwork(): Network {
  if (current === null) throw new Error('no simulation is under way');
  return current;
}

export function setNetwork(network: Network | null): void {
  current = network;
}
