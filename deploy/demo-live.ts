import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { listenCommand } from '../control-plane/cli/webhooks-listen.ts';
import { isJsonObject } from '../shared/crypto/json-object.ts';
import { must } from '../shared/errors/assert.ts';
import {
  type Agent,
  type Answer,
  api,
  BusyError,
  call,
  DemoError,
  issuePassport,
  print,
  refuseErrors,
  type Stage,
  title,
} from './demo-stage.ts';

/** How many requests a second `--live` may send: enough to see movement, and no load test. */
export const liveRate = { least: 0.1, most: 20, usual: 2 } as const;

const madeBy = 'Made by npm run demo -- --live';

/** The gates of this market. One that is already there is used as it is, so that its policy can be edited. */
const gates = {
  Orders: {
    trust_level: 'L1',
    constraints: {
      allowed_domains: ['*.example.com'],
      spend_limits: { per_transaction_usd: 50, daily_usd: 20_000, monthly_usd: 250_000 },
      approvals: { above_usd: 20, expires_in_s: 600 },
    },
  },
  Search: { trust_level: 'L1', constraints: { rate_limits: { requests_per_minute: 20, per: 'passport' } } },
  Payouts: {
    trust_level: 'L2',
    constraints: {
      spend_limits: { per_transaction_usd: 500, daily_usd: 5_000, per: 'passport' },
      approvals: { above_usd: 250, expires_in_s: 900 },
    },
  },
} as const;

const agents = {
  buyer: { permissions: ['orders:*'] },
  researcher: { permissions: ['search:read'] },
  accountant: { permissions: ['payouts:create'], trust_tier: 'L2' },
  intern: { permissions: ['orders:read', 'payouts:create'] },
  /** Revoked and replaced from time to time. */
  courier: { permissions: ['orders:create', 'search:read'] },
} as const;

type GateName = keyof typeof gates;
type AgentName = keyof typeof agents;

interface Scene {
  readonly agent: AgentName;
  readonly gate: GateName;
  /** How often it is chosen, compared with the others. */
  readonly weight: number;
  readonly permission: string;
  /** The least and the most that it spends, in USD. Absent: it spends nothing. */
  readonly usd?: readonly [least: number, most: number];
  readonly domain?: string;
  readonly waitsForPerson?: boolean;
}

const shop = 'shop.example.com';
/** What agents do. Most is permitted; each of the others is blocked, or asks a person, for its own reason. */
const scenes: readonly Scene[] = [
  { agent: 'buyer', gate: 'Orders', weight: 30, permission: 'orders:create', usd: [0.2, 4], domain: shop },
  { agent: 'courier', gate: 'Orders', weight: 14, permission: 'orders:create', usd: [0.2, 3], domain: shop },
  { agent: 'intern', gate: 'Orders', weight: 8, permission: 'orders:read', usd: [0, 0], domain: shop },
  { agent: 'researcher', gate: 'Search', weight: 24, permission: 'search:read' },
  { agent: 'accountant', gate: 'Payouts', weight: 6, permission: 'payouts:create', usd: [0.5, 9] },
  { agent: 'intern', gate: 'Orders', weight: 4, permission: 'orders:create', usd: [1, 5], domain: shop },
  {
    agent: 'buyer',
    gate: 'Orders',
    weight: 4,
    permission: 'orders:create',
    usd: [1, 5],
    domain: 'shop.evil.test',
  },
  { agent: 'buyer', gate: 'Orders', weight: 3, permission: 'orders:create', usd: [51, 90], domain: shop },
  { agent: 'intern', gate: 'Payouts', weight: 3, permission: 'payouts:create', usd: [5, 20] },
  {
    agent: 'buyer',
    gate: 'Orders',
    weight: 5,
    permission: 'orders:create',
    usd: [21, 49],
    domain: shop,
    waitsForPerson: true,
  },
  {
    agent: 'accountant',
    gate: 'Payouts',
    weight: 2,
    permission: 'payouts:create',
    usd: [260, 480],
    waitsForPerson: true,
  },
];

/** Requests that wait for a person at once; their money is set aside meanwhile. */
const waitingMax = 4;
/** Between two requests to a person, so that they can be answered by hand. */
const approvalPauseMs = 15_000;
/** How often an agent that waits asks again. */
const askAgainMs = 5_000;
/** How long a courier works before its passport is revoked, and how long it goes on asking afterwards. */
const courierMs = { works: 60_000, isRevoked: 10_000 } as const;
const summaryMs = 10_000;
/** Between two tries while the service is away; each further one doubles. */
const awayMs = { first: 1_000, longest: 15_000 } as const;

interface Waiting {
  readonly scene: Scene;
  readonly agent: Agent;
  readonly request: Readonly<Record<string, unknown>>;
  askedAtMs: number;
}

/**
 * `npm run demo -- --live`: agents trade at the running service until `signal` aborts, one request at a time
 * and at most `perSecond` in a second. While the service is away it waits and tries again. At the end it
 * revokes the passports that it issued and deletes its key; gates and records stay.
 */
export async function trade(
  stage: Stage,
  { perSecond, signal }: { readonly perSecond: number; readonly signal: AbortSignal },
): Promise<void> {
  title('The market');
  const market = await Market.open(stage);
  const ended = new AbortController();
  const receiving = receiveWebhooks(stage, AbortSignal.any([signal, ended.signal]));
  title('Trading. Ctrl-C ends it.');
  print(
    `The console is at ${stage.url}/console. Log in with your email and password. Nobody has any yet: open`,
  );
  print(
    'the link for the first owner, in .data/first-owner-link. The overview and the approvals move by themselves.',
  );
  try {
    await tradeUntil(market, perSecond, signal);
  } finally {
    title('The end');
    ended.abort();
    await receiving;
    await market.close();
  }
}

async function tradeUntil(market: Market, perSecond: number, signal: AbortSignal): Promise<void> {
  let summaryAtMs = performance.now() + summaryMs;
  let awayPauseMs: number | null = null;
  while (!signal.aborted) {
    try {
      await market.act();
      if (awayPauseMs !== null) print('The service answers again.');
      awayPauseMs = null;
    } catch (error) {
      if (error instanceof DemoError && !(error instanceof BusyError)) throw error;
      if (awayPauseMs === null) print('The service does not answer; the agents wait and try again.');
      awayPauseMs = Math.min((awayPauseMs ?? awayMs.first / 2) * 2, awayMs.longest);
    }
    if (performance.now() >= summaryAtMs) {
      market.summarize();
      summaryAtMs = performance.now() + summaryMs;
    }
    await pause(awayPauseMs ?? 1_000 / perSecond, null, { signal }).catch(() => null);
  }
}

class Market {
  readonly #stage: Stage;
  readonly #key: { readonly id: string; readonly secret: string };
  readonly #gateIds: ReadonlyMap<GateName, string>;
  readonly #agents: Map<AgentName, Agent>;
  readonly #waiting = new Map<string, Waiting>();
  #counts: Record<string, number> = {};
  #approvalAtMs = 0;
  #courierSinceMs = performance.now();
  #isCourierRevoked = false;

  private constructor(
    stage: Stage,
    key: { readonly id: string; readonly secret: string },
    gateIds: ReadonlyMap<GateName, string>,
    cast: Map<AgentName, Agent>,
  ) {
    this.#stage = stage;
    this.#key = key;
    this.#gateIds = gateIds;
    this.#agents = cast;
  }

  static async open(stage: Stage): Promise<Market> {
    const gateIds = await findOrCreateGates(stage);
    const cast = new Map<AgentName, Agent>();
    for (const name of Object.keys(agents) as AgentName[]) cast.set(name, await hire(stage, name));
    const { body } = await api(stage, 'POST', '/api-keys', { name: madeBy, scopes: ['enforcement:check'] });
    return new Market(stage, { id: String(body['key_id']), secret: String(body['key']) }, gateIds, cast);
  }

  /**
   * One request of one agent, or what happens from time to time. Throws where the service does not answer.
   */
  async act(): Promise<void> {
    const nowMs = performance.now();
    const due = [...this.#waiting].find(([, { askedAtMs }]) => nowMs - askedAtMs >= askAgainMs);
    if (due !== undefined) return this.#askAgain(...due);
    await this.#changeCourier(nowMs);
    const mayWait = this.#waiting.size < waitingMax && nowMs >= this.#approvalAtMs;
    const scene = choose(scenes.filter(({ waitsForPerson }) => mayWait || waitsForPerson !== true));
    const agent = must(this.#agents.get(scene.agent), 'every agent is hired');
    const request = requestOf(scene);
    const { body } = await this.#check(scene, agent, request);
    if (body['decision'] !== 'SUSPEND') return;
    this.#approvalAtMs = nowMs + approvalPauseMs;
    this.#waiting.set(String(body['approval_id']), { scene, agent, request, askedAtMs: nowMs });
    print(`${scene.agent} waits for a person: ${request['amount']} USD at ${scene.gate}.`);
  }

  async #askAgain(approvalId: string, waiting: Waiting): Promise<void> {
    const { scene, agent, request } = waiting;
    waiting.askedAtMs = performance.now();
    const { body } = await this.#check(scene, agent, { ...request, approval_id: approvalId });
    if (body['decision'] === 'SUSPEND') return;
    this.#waiting.delete(approvalId);
    const outcome = body['decision'] === 'PERMIT' ? 'may go on' : `may not: ${body['reason']}`;
    print(`${scene.agent} ${outcome}, ${request['amount']} USD at ${scene.gate}.`);
  }

  async #changeCourier(nowMs: number): Promise<void> {
    const workedMs = nowMs - this.#courierSinceMs;
    if (!this.#isCourierRevoked && workedMs >= courierMs.works) {
      await this.#revoke(must(this.#agents.get('courier'), 'every agent is hired'), 'the courier left');
      this.#isCourierRevoked = true;
      print('The passport of courier is revoked.');
    } else if (workedMs >= courierMs.works + courierMs.isRevoked) {
      this.#agents.set('courier', await hire(this.#stage, 'courier'));
      this.#isCourierRevoked = false;
      this.#courierSinceMs = nowMs;
    }
  }

  async #check(scene: Scene, agent: Agent, request: object): Promise<Answer> {
    const gateId = must(this.#gateIds.get(scene.gate), 'every gate is there');
    const url = `${this.#stage.sidecarUrl}/v1/gates/${gateId}/check`;
    const answer = await call(url, 'POST', this.#key.secret, { passport: agent.token, request });
    refuseErrors(answer, 'The check at the sidecar');
    const { decision, reason } = answer.body;
    const outcome = String(decision === 'BLOCK' ? reason : decision);
    this.#counts[outcome] = (this.#counts[outcome] ?? 0) + 1;
    return answer;
  }

  async #revoke(agent: Agent, reason: string): Promise<void> {
    await api(this.#stage, 'POST', `/passports/${agent.passportId}/revoke`, { reason });
  }

  /** Prints what was decided since the last time. */
  summarize(): void {
    const parts = Object.entries(this.#counts).toSorted(([, one], [, other]) => other - one);
    if (parts.length > 0) print(parts.map(([outcome, times]) => `${times} ${outcome}`).join(', '));
    this.#counts = {};
  }

  async close(): Promise<void> {
    this.summarize();
    try {
      for (const agent of this.#agents.values()) await this.#revoke(agent, 'the demonstration ended');
      await api(this.#stage, 'DELETE', `/api-keys/${this.#key.id}`);
      print('The passports of the agents are revoked, and the key is deleted. Gates and records stay.');
    } catch {
      print(
        'The service does not answer: passports and key of the demonstration stay. The passports end in a day.',
      );
    }
  }
}

const hire = (stage: Stage, name: AgentName): Promise<Agent> => {
  const { permissions, ...more } = agents[name];
  return issuePassport(stage, name, [...permissions], more);
};

async function findOrCreateGates(stage: Stage): Promise<ReadonlyMap<GateName, string>> {
  const { body } = await api(stage, 'GET', '/gates?limit=200');
  const known = (Array.isArray(body['items']) ? body['items'] : []).filter(isJsonObject);
  const ids = new Map<GateName, string>();
  for (const name of Object.keys(gates) as GateName[]) {
    const found = known.find((gate) => gate['name'] === name && gate['description'] === madeBy);
    const gate =
      found ?? (await api(stage, 'POST', '/gates', { name, description: madeBy, ...gates[name] })).body;
    ids.set(name, String(gate['gate_id']));
    print(`Gate ${name}: ${gate['gate_id']}${found === undefined ? '' : ', as you left it'}.`);
  }
  return ids;
}

function choose(from: readonly Scene[]): Scene {
  let place = Math.random() * from.reduce((sum, { weight }) => sum + weight, 0);
  const found = from.find(({ weight }) => {
    place -= weight;
    return place < 0;
  });
  return found ?? must(from.at(-1), 'there are scenes');
}

function requestOf({ permission, usd, domain }: Scene): Readonly<Record<string, unknown>> {
  const cents = usd === undefined ? null : Math.round((usd[0] + Math.random() * (usd[1] - usd[0])) * 100);
  return {
    permission_key: permission,
    ...(cents === null ? {} : { amount: cents / 100 }),
    ...(domain === undefined ? {} : { domain }),
  };
}

/** Fetches the market's events as webhooks and delivers them to a receiver here, until `signal` aborts. */
async function receiveWebhooks(stage: Stage, signal: AbortSignal): Promise<void> {
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  try {
    await listenCommand({
      api: { origin: stage.url, key: stage.adminKey },
      forwardTo: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
      events: ['passport.denied', 'passport.revoked', 'approval.requested', 'approval.resolved'],
      signal,
      output: { write: () => undefined },
    });
  } catch (error) {
    print(`Webhooks are left out: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    receiver.close();
  }
}
