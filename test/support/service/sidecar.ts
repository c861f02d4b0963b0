import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { request } from 'undici';
import { AgentTrustError } from '../../../clients/node/src/errors.ts';
import type { CheckInput } from '../../../clients/node/src/sidecar.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { assert, must } from '../../../shared/errors/assert.ts';
import { limits } from '../../../shared/model/limits.ts';
import { type MonotonicMillis, secondMs, type UnixMillis } from '../../../shared/model/time.ts';
import { CarriedClock } from '../../../shared/runtime/carried-clock.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { type Logger, silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { teardown } from '../../../shared/runtime/teardown.ts';
import { embed } from '../../../sidecar/embedded/embed.ts';
import type { EmbeddedAgentTrust } from '../../../sidecar/embedded/start-embedded.ts';
import { chooseServer } from '../../../sidecar/http/choose-server.ts';
import type { ServerPort } from '../../../sidecar/http/server.ts';
import type { ForwardAuthSettings } from '../../../sidecar/intake/forward-auth/forward-auth.ts';
import { ControlPlaneTime } from '../../../sidecar/replica/control-plane-time.ts';
import { type CoreOptions, startCore } from '../../../sidecar/startup/core.ts';
import { startOneSidecar } from '../../../sidecar/startup/one-sidecar.ts';
import { countCost } from '../base/costs.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { until } from '../base/until.ts';
import { answerHolderOf } from '../data/document.ts';
import { linkTo } from '../peers/link.ts';
import type { Api, Reply } from './api.ts';

/** A whole sidecar in this process, following the control plane of a test. */
export interface TestSidecar {
  readonly origin: string;
  readonly folder: string;
  /** As `Api.call`, to the sidecar. Absent key: the operator's admin key. */
  call(call: SidecarCall): Promise<Reply>;
  /** `POST /v1/gates/:id/check`, or `/v1/enforce` where the gate is null. */
  check(gateId: string | null, passport: unknown, request: unknown, key?: string | null): Promise<Reply>;
  /**
   * Resolves when the sidecar has applied everything that the control plane has committed so far, and knows
   * that it is current.
   */
  caughtUp(): Promise<void>;
  /** The control plane's time, as it is carried here, stands still at this moment until `resume`. */
  stopClockAt(nowMs: number): void;
  /**
   * The wall clock of its machine, which goes with that of the API, stands still at this time until `resume`.
   */
  stopMachineClockAt(nowMs: number): void;
  /** Between sidecar and control plane; a push by a bus goes another way. */
  readonly link: { cut(): void; restore(): void };
  /**
   * Cuts the link, and makes its monotonic clock stand, until `resume`, where its state is so old, or younger
   * by less than a millisecond.
   */
  ageStateTo(ageMs: number): Promise<void>;
  /**
   * Its monotonic clock stands still until `resume`: however slow the machine is, nothing has waited too
   * long.
   */
  stopTime(): void;
  /** Restores the link, and both clocks run again; the monotonic one has jumped for good. */
  resume(): void;
  /** Closes it; `folder` stays for another one. */
  close(): Promise<void>;
  removeFolder(): void;
}

interface SidecarCall {
  readonly method?: string;
  readonly path: string;
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON, a string or bytes as they are. */
  readonly body?: unknown;
}

export interface TestSidecarOptions {
  readonly api: Api;
  /** Default: the bus of the API. Null: it follows by long polls. Stays its owner's. */
  readonly bus?: Bus | null;
  /** Default: the best that works here. */
  readonly adapter?: ServerPort;
  /** Of an earlier one, to go on where it ended. */
  readonly folder?: string;
  /**
   * The link is cut from the beginning, and the call resolves as soon as the sidecar listens, ready or not.
   * Default false.
   */
  readonly isCutOff?: boolean;
  /** Admin key of the account whose gates it serves. Default: the operator's. */
  readonly accountKey?: string;
  /** Default: as the settings have it. */
  readonly forwardAuth?: ForwardAuthSettings;
  readonly logger?: Logger;
  /** How long a request waits for leases and settlements. Default: as in earnest. */
  readonly quotaWaitMs?: number;
  /** How long bytes are on their way to the control plane, and back. Default: 0. */
  readonly eachWayMs?: number;
}

export const startTestSidecar = (options: TestSidecarOptions): Promise<TestSidecar> =>
  startWith(options, (core) => startServed(options, core));

/** The same without a server: `call` answers `/readyz` alone, and `check` takes no key. */
export async function startTestEmbedded(
  options: Omit<TestSidecarOptions, 'adapter' | 'forwardAuth'>,
): Promise<TestSidecar & { readonly embedded: EmbeddedAgentTrust }> {
  const { started, ...sidecar } = await startWith(options, (core) => startEmbedded(core));
  return { ...sidecar, embedded: started.embedded };
}

/** What a test sidecar is made of besides its clocks and its link. */
interface Started {
  readonly origin: string;
  call(call: SidecarCall): Promise<Reply>;
  check: TestSidecar['check'];
  close(): Promise<void>;
}

async function startServed(
  { api, adapter, forwardAuth }: TestSidecarOptions,
  core: CoreOptions,
): Promise<Started> {
  const sidecar = await startOneSidecar({
    ...core,
    server: adapter ?? (await chooseServer(process.env, 'uws')),
    origin: null,
    forwardAuth: forwardAuth ?? { trust: 'loopback', headers: [] },
    listener: { host: '127.0.0.1', port: 0, exclusive: true },
    measuresProcess: true,
  });
  const origin = `http://127.0.0.1:${sidecar.port}`;
  const hold = answerHolderOf(readFileSync(ownDocument, 'utf8'));
  const call = async ({ method, path, key: callerKey = api.adminKey, headers = {}, body }: SidecarCall) => {
    const asked = method ?? (body === undefined ? 'GET' : 'POST');
    const reply = await send(`${origin}${path}`, {
      method: asked,
      headers: { ...(callerKey === null ? {} : { authorization: `Bearer ${callerKey}` }), ...headers },
      body,
    });
    const seen = asked === 'HEAD' ? null : { json: reply.body };
    hold({ ...reply, method: asked, path: path.split('?', 1)[0] ?? '', body: seen });
    return reply;
  };
  const check: TestSidecar['check'] = (gateId, passport, request, callerKey = api.adminKey) =>
    call({
      path: gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`,
      key: callerKey,
      body: { passport, request },
    });
  return { origin, call, check, close: () => sidecar.close() };
}

async function startEmbedded(
  options: CoreOptions,
): Promise<Started & { readonly embedded: EmbeddedAgentTrust }> {
  const started = teardown(options.logger);
  const embedded = embed(await startCore(options, started), started);
  return {
    embedded,
    origin: '',
    call: async ({ path }) => {
      assert(path === '/readyz', 'what is embedded has no addresses');
      return replyOf(embedded.isReady() ? 200 : 503, embedded.readiness());
    },
    check: async (gateId, passport, request) => {
      const check = { passport, request } as CheckInput;
      try {
        const decision = await (gateId === null ? embedded.enforce(check) : embedded.check(gateId, check));
        if (decision.decision !== 'UNAVAILABLE') return replyOf(200, decision);
        return replyOf(503, { error: { code: decision.reason, message: decision.detail } });
      } catch (error) {
        if (!(error instanceof AgentTrustError)) throw error;
        const { code, message, param } = error;
        return replyOf(must(error.http_status, 'it was refused'), { error: { code, message, param } });
      }
    },
    close: () => embedded.stop(),
  };
}

const replyOf = (status: number, body: unknown): Reply => ({ status, body, headers: {} });

async function startWith<Sidecar extends Started>(
  options: TestSidecarOptions,
  start: (core: CoreOptions) => Promise<Sidecar>,
): Promise<TestSidecar & { readonly started: Sidecar }> {
  countCost('services');
  const { api, logger = silentLogger } = options;
  const owned = temporaryFolder();
  const folder = options.folder ?? owned.path;
  const machine = movableClock(api.deps.clock);
  const clock = new StoppableClock(machine);
  const link = await linkTo(await portOf(api), { eachWayMs: options.eachWayMs ?? 0 });
  if (options.isCutOff === true) link.cut();
  const scopes = ['sidecars:connect'];
  const { keyId, key } = await api.createKey({ scopes }, options.accountKey ?? api.adminKey);
  const started = await start({
    folder,
    controlPlane: { origin: link.origin, apiKey: key },
    fsyncMs: 50,
    bus: options.bus === undefined ? api.deps.bus : options.bus,
    verifyThreads: 1,
    drainMsMax: 1_000,
    quotaWaitMs: options.quotaWaitMs ?? limits.quotaWaitMsMax,
    time: new ControlPlaneTime(machine, clock),
    random: systemRandom(),
    logger,
  });
  const { origin, call, check } = started;
  if (options.isCutOff !== true) {
    await until(async () => (await call({ path: '/readyz', key: null })).status === 200, {
      what: 'a ready sidecar',
    });
  }
  return {
    origin,
    folder,
    call,
    check,
    started,
    caughtUp: async () => {
      const heads = await headsOf(api, keyId);
      await until(
        async () => {
          const { state, control_plane } = (await call({ path: '/readyz', key: null })).body;
          const isCurrent = state.age_ms !== null && state.age_ms <= 2 * limits.longPollMsMax;
          // Where the test has moved the time of both, that of the control plane is known here with its next
          // answer.
          const isOnTime = machine.isStopped || Math.abs(control_plane.clock_offset_ms) < secondMs / 4;
          return (
            isCurrent &&
            isOnTime &&
            state.account_revision >= heads.account &&
            state.global_revision >= heads.global
          );
        },
        { what: 'the sidecar at the heads of its feeds' },
      );
    },
    stopClockAt: (nowMs) => {
      clock.stoppedAtMs = nowMs;
    },
    stopMachineClockAt: machine.stopAt,
    link,
    ageStateTo: async (ageMs) => {
      link.cut();
      clock.stopMonotonic();
      const { age_ms: nowMs } = (await call({ path: '/readyz', key: null })).body.state;
      assert(nowMs <= ageMs, 'a state does not get younger without its control plane');
      // Readiness rounds the age, whose fraction comes from the clock of the control plane.
      clock.letPass(ageMs - nowMs - 0.5);
    },
    stopTime: () => clock.stopMonotonic(),
    resume: () => {
      clock.run();
      machine.run();
      link.restore();
    },
    close: async () => {
      await started.close();
      await link.close();
    },
    removeFolder: () => owned.remove(),
  };
}

/** The API listens from the first sidecar on, and until it is closed. */
async function portOf(api: Api): Promise<number> {
  if (!api.app.server.listening) await api.app.listen({ host: '127.0.0.1', port: 0 });
  return (api.app.server.address() as AddressInfo).port;
}

/** Of the account of this key. */
async function headsOf(
  api: Api,
  keyId: string,
): Promise<{ readonly account: number; readonly global: number }> {
  const rows = await api.deps.sql<{ feed_id: string; revision: number }[]>`
    SELECT feed_id, revision FROM feeds
    WHERE feed_id = 'global' OR feed_id = (SELECT account_id FROM api_keys WHERE key_id = ${keyId})`;
  const revisionOf = (isGlobal: boolean) =>
    must(rows.find((row) => (row.feed_id === 'global') === isGlobal)?.revision, 'both feeds have a head');
  return { account: revisionOf(false), global: revisionOf(true) };
}

async function send(
  url: string,
  options: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: unknown;
  },
): Promise<Reply> {
  countCost('requests');
  const { method, headers, body } = options;
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const response = await request(url, {
    method,
    headers,
    body: body === undefined ? null : isRaw ? Buffer.from(body) : JSON.stringify(body),
  });
  const text = await response.body.text();
  const isJson = String(response.headers['content-type']).startsWith('application/json');
  return {
    status: response.statusCode,
    body: isJson && text !== '' ? JSON.parse(text) : text,
    headers: response.headers,
  };
}

/** What it says of itself at `/openapi.json`. */
const ownDocument = new URL('../../../sidecar/openapi.json', import.meta.url);

/**
 * The control plane's time as a sidecar carries it, which a test can make stand. Its monotonic time comes in
 * whole milliseconds, so that ages can be told exactly; where a test lets some of it pass, what is known here
 * grows old, and no loop was stopped.
 */
class StoppableClock extends CarriedClock {
  stoppedAtMs: number | null = null;
  #monotonicStoppedAtMs: number | null = null;
  #aheadMs = 0;

  override now(): UnixMillis {
    return this.stoppedAtMs === null ? super.now() : (this.stoppedAtMs as UnixMillis);
  }

  override monotonic(): MonotonicMillis {
    return (this.#monotonicStoppedAtMs ?? Math.floor(super.monotonic()) + this.#aheadMs) as MonotonicMillis;
  }

  stopMonotonic(): void {
    this.#monotonicStoppedAtMs = this.monotonic();
  }

  letPass(durationMs: number): void {
    this.#aheadMs += durationMs;
    if (this.#monotonicStoppedAtMs !== null) this.#monotonicStoppedAtMs += durationMs;
  }

  run(): void {
    this.stoppedAtMs = null;
    this.#monotonicStoppedAtMs = null;
  }
}

interface MovableClock extends Clock {
  /** Its wall clock stands. */
  readonly isStopped: boolean;
  stopAt(nowMs: number): void;
  run(): void;
}

/** Its wall clock is that of the control plane, as far as nobody stops it. */
function movableClock(of: Clock): MovableClock {
  let stoppedAtMs: number | null = null;
  return {
    now: () => (stoppedAtMs ?? of.now()) as UnixMillis,
    monotonic: of.monotonic,
    get isStopped() {
      return stoppedAtMs !== null;
    },
    stopAt: (nowMs) => {
      stoppedAtMs = nowMs;
    },
    run: () => {
      stoppedAtMs = null;
    },
  };
}
