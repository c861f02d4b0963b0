import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Chance } from '../support/base/chance.ts';
import type { Answers, Asked, AskedKey } from './answers.ts';
import type { Course, Lane } from './course.ts';
import type { Servers } from './servers.ts';
import { type Post, settlePermit } from './settle-clients.ts';

export interface Run {
  /** Ends all clients, each after its present request. */
  stop(): Promise<void>;
}

export interface ClientsOptions {
  readonly count: number;
  readonly servers: Servers;
  /** Where they race now; asked before each request. */
  readonly course: () => Course;
  readonly answers: Answers;
  readonly chance: Chance;
  /** Between two requests of a client. Default: none. */
  readonly restMs?: number;
}

/** So many keys are known for replays. */
const keysKept = 200;
const answerMsMax = 10_000;

/**
 * Clients that ask one request after the other. Most are plain. Some carry an idempotency key and are sent to
 * several servers at once, sent again later, or sent again for another sum; some name another agent in the
 * body; some are given up while they are under way. What waits for a person is mostly approved, and then
 * presented at two servers at once.
 */
export function startClients(options: ClientsOptions): Run {
  const { servers, chance } = options;
  const connections = Math.ceil(options.count / servers.sidecars.length) * 2;
  const pools = new Map<string, Pool>();
  const poolOf = (origin: string): Pool => {
    const pool = pools.get(origin) ?? new Pool(origin, { connections });
    pools.set(origin, pool);
    return pool;
  };
  let isOver = false;
  const shared = { ...options, poolOf, keyed: [] as Asked[], isOver: () => isOver };
  const clients = Array.from({ length: options.count }, (_, number) =>
    new Client(shared, number, chance.branch(`client ${number}`)).race(),
  );
  return {
    stop: async () => {
      isOver = true;
      await Promise.all(clients);
      await Promise.all(Array.from(pools.values(), (pool) => pool.destroy()));
    },
  };
}

interface Shared extends ClientsOptions {
  readonly poolOf: (origin: string) => Pool;
  /** The requests with a key that were asked last. */
  readonly keyed: Asked[];
  readonly isOver: () => boolean;
}

class Client {
  readonly #shared: Shared;
  readonly #number: number;
  readonly #chance: Chance;
  #asked = 0;

  constructor(shared: Shared, number: number, chance: Chance) {
    this.#shared = shared;
    this.#number = number;
    this.#chance = chance;
  }

  async race(): Promise<void> {
    while (!this.#shared.isOver()) {
      const choice = this.#chance.below(100);
      if (choice < 84) await this.#ask(this.#plain());
      else if (choice < 90) await this.#askAtOnce(this.#keyed(), 1 + this.#chance.below(3));
      else if (choice < 94) await this.#askAtOnce(this.#replay(), 2);
      else if (choice < 95) await this.#ask(this.#conflict());
      else await this.#giveUp(this.#plain());
      if (this.#shared.restMs !== undefined) await pause(this.#shared.restMs);
    }
  }

  #plain(lane: Lane = this.#chance.pick(this.#shared.course().lanes)): Asked {
    return this.#request(lane, null);
  }

  #keyed(): Asked {
    const key = {
      name: `key-${this.#number}-${this.#asked}`,
      askedAtMs: Date.now(),
      count: 0,
      attestationId: null,
    };
    const asked = this.#request(this.#chance.pick(this.#shared.course().lanes), key);
    const { keyed, answers } = this.#shared;
    answers.keys.push(key);
    keyed.push(asked);
    if (keyed.length > keysKept) keyed.shift();
    return asked;
  }

  /** Word for word. */
  #replay(): Asked {
    const { keyed } = this.#shared;
    return keyed.length === 0 ? this.#keyed() : this.#chance.pick(keyed);
  }

  /** Another request under a key that somebody has used. */
  #conflict(): Asked {
    const { key, lane, passport, amountUsd, body } = this.#replay();
    const other = { ...body, note: `instead, by client ${this.#number}, ${this.#asked++}` };
    return {
      lane,
      passport,
      amountUsd,
      key,
      body: other,
      sameAs: other,
      askedAtMs: key?.askedAtMs ?? Date.now(),
    };
  }

  #request(lane: Lane, key: AskedKey | null): Asked {
    const passport = this.#chance.pick(lane.passports);
    const amountUsd = lane.amountsUsd.length === 0 ? null : this.#chance.pick(lane.amountsUsd);
    const body = {
      permission_key: 'orders:create',
      // No two requests are the same: more than one PERMIT for one hash is one request that was charged
      // twice.
      note: `client ${this.#number}, ${this.#asked++}`,
      ...(amountUsd === null ? {} : { amount: amountUsd }),
      ...(lane.holds === undefined ? {} : { hold: true }),
      ...(key === null ? {} : { idempotency_key: key.name }),
      // What is counted belongs to the passport, whatever name the body says (contract §5).
      ...(this.#chance.happens(0.1) ? { agent_id: `agent-${this.#asked}`, agent_name: 'Somebody else' } : {}),
    };
    return { lane, passport, amountUsd, key, body, sameAs: body, askedAtMs: key?.askedAtMs ?? Date.now() };
  }

  async #askAtOnce(asked: Asked, copies: number): Promise<void> {
    await Promise.all(Array.from({ length: copies }, () => this.#ask(asked)));
  }

  /** The client goes away: what was decided for it by then stands, and is told to nobody. */
  async #giveUp(asked: Asked): Promise<void> {
    const leaving = new AbortController();
    const left = pause(this.#chance.below(12)).then(() => leaving.abort());
    await this.#ask(asked, leaving.signal);
    await left;
  }

  async #ask(asked: Asked, signal: AbortSignal | null = null): Promise<void> {
    const { answers } = this.#shared;
    if (asked.key !== null) asked.key.count++;
    const servers = this.#serversOf(asked);
    const server = this.#serverOf(servers);
    const ends = answers.asks(asked, server);
    const answer = await this.#call(server, `/v1/gates/${asked.lane.gateId}/check`, {
      key: servers.key,
      body: { passport: asked.passport.token, request: asked.body },
      signal,
    });
    if (answer === null) {
      ends(null);
      answers.count(signal?.aborted === true ? 'given up' : 'no answer');
      // Somebody was killed: the others must not be drowned in connections to nobody.
      await pause(5 + this.#chance.below(20));
      return;
    }
    const { status, body } = answer;
    ends(`${status} ${body['error']?.code ?? `${body['decision']} ${body['reason']}`}`);
    if (status !== 200) {
      answers.error(asked, status, String(body['error']?.code));
      if (status === 503) await pause(5 + this.#chance.below(20));
      return;
    }
    answers.count(body['decision'] === 'PERMIT' ? 'PERMIT' : `${body['decision']} ${body['reason']}`);
    if (body['decision'] === 'PERMIT') await this.#permitted(asked, String(body['attestation_id']));
    // Who asks again at once keeps the machine too busy to find out.
    if (body['reason'] === 'quota_unavailable') await pause(100 + this.#chance.below(200));
    const isAnswered = asked.body['approval_id'] !== undefined || asked.lane.isApprovedAhead === true;
    if (body['decision'] === 'SUSPEND' && !isAnswered)
      await this.#getApproved(asked, String(body['approval_id']));
  }

  async #permitted(asked: Asked, attestationId: string): Promise<void> {
    const { answers } = this.#shared;
    const isNew = !answers.permits.has(attestationId);
    answers.permit(asked, attestationId);
    if (!isNew || asked.lane.holds === undefined) return;
    const servers = this.#serversOf(asked);
    const { key } = servers;
    const post: Post = (origin, path, body) => this.#call(origin, path, { key, body, signal: null });
    await settlePermit({ answers, servers, chance: this.#chance, post }, asked, attestationId);
  }

  async #getApproved(asked: Asked, approvalId: string): Promise<void> {
    const { controlPlanes } = this.#shared.servers;
    if (controlPlanes.length === 0 || this.#chance.happens(0.1)) return;
    await this.#answer(approvalId, this.#chance.happens(0.1) ? 'deny' : 'approve');
    const approved = { ...asked, body: { ...asked.body, approval_id: approvalId } };
    if (this.#chance.happens(0.3)) {
      // The answer is taken back, before it is used or beside its use, and another is given.
      const used = this.#chance.happens(0.5) ? this.#askAtOnce(approved, 1) : null;
      await this.#answer(approvalId, 'undo');
      await used;
      await this.#answer(approvalId, this.#chance.happens(0.1) ? 'deny' : 'approve');
    }
    await this.#askAtOnce(approved, 2);
  }

  async #answer(approvalId: string, word: 'approve' | 'deny' | 'undo'): Promise<void> {
    const { controlPlanes, key } = this.#shared.servers;
    const said = await this.#call(this.#chance.pick(controlPlanes), `/v1/approvals/${approvalId}/${word}`, {
      key,
      body: {},
      signal: null,
    });
    this.#shared.answers.count(`${word} ${said?.status ?? 'without answer'}`);
  }

  #serversOf = ({ lane }: Asked): Servers => lane.servers ?? this.#shared.servers;

  /** Some ask a control plane, which decides on connections of its own to a database that may die. */
  #serverOf({ sidecars, controlPlanes }: Servers): string {
    return controlPlanes.length > 0 && this.#chance.happens(0.1)
      ? this.#chance.pick(controlPlanes)
      : this.#chance.pick(sidecars);
  }

  /** Null: no whole answer. */
  async #call(
    origin: string,
    path: string,
    {
      key,
      body,
      signal,
    }: { readonly key: string; readonly body: object; readonly signal: AbortSignal | null },
  ): Promise<Answer | null> {
    const late = AbortSignal.timeout(answerMsMax);
    try {
      const answer = await this.#shared.poolOf(origin).request({
        method: 'POST',
        path,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: signal === null ? late : AbortSignal.any([signal, late]),
      });
      return { status: answer.statusCode, body: JSON.parse(await answer.body.text()) };
    } catch {
      return null;
    }
  }
}

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member
  readonly body: any;
}
