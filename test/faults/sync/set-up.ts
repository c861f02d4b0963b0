import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { build } from '../../../control-plane/app.ts';
import type { Deps } from '../../../control-plane/deps.ts';
import { makeSigningKey, openSigningKey } from '../../../control-plane/signing/sealed-signing-key.ts';
import { insertSigningKey, publicHalf } from '../../../control-plane/signing/signing-key-store.ts';
import { startPulse } from '../../../control-plane/storage/pulse.ts';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import { heartbeats, keepSidecars } from '../../../control-plane/sync/heartbeat.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { redisBus } from '../../../shared/bus/redis.ts';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import type { AccountId, GateId, SidecarId } from '../../../shared/model/ids.ts';
import type { VerificationKey } from '../../../shared/model/signing-key.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { globalFeed } from '../../../shared/wire/sync/sync.ts';
import type { SealedChangesAnswer } from '../../../shared/wire/sync/sync-schema.ts';
import { CatchUp } from '../../../sidecar/replica/catch-up.ts';
import { ControlPlaneClient } from '../../../sidecar/replica/control-plane-client.ts';
import { ControlPlaneTime } from '../../../sidecar/replica/control-plane-time.ts';
import { Following } from '../../../sidecar/replica/follow.ts';
import { KnownHistory } from '../../../sidecar/replica/known-history.ts';
import { Replica } from '../../../sidecar/replica/replica.ts';
import { snapshotFile } from '../../../sidecar/replica/snapshot-file.ts';
import { freePort } from '../../support/base/free-port.ts';
import { until } from '../../support/base/until.ts';
import { type Api, startOwnApi } from '../../support/service/api.ts';

export type Push = { readonly redisUrl: string } | 'same process' | 'none';

/** A control plane that listens on loopback, with its heartbeat, and sidecars' followers on it. */
export interface Followed {
  readonly api: Api;
  /** Its dependencies, with the bus of this test. */
  readonly deps: Deps;
  /** The account of the sidecars, with an admin key and a key for them. */
  readonly accountId: AccountId;
  readonly adminKey: string;
  /** Over the network, as an admin would. */
  call(method: string, path: string, body?: object): Promise<{ status: number; body: Record<string, never> }>;
  /** Somebody's passport, in the global feed; its revision. */
  revokeSomebody(): Promise<number>;
  createGate(): Promise<GateId>;
  updateGate(gateId: GateId, body: object): Promise<void>;
  /** Another sidecar; with `folder` the same one again. */
  follow(options?: {
    folder?: string;
    sidecarId?: SidecarId;
    /** Is called with each answer to a pull, before it is taken. */
    onChanges?: (answer: SealedChangesAnswer) => void;
  }): Promise<Follower>;
  /** Nobody listens on its port any more. */
  goAway(): Promise<void>;
  comeBack(changed?: Partial<Deps>): Promise<void>;
  close(): Promise<void>;
}

export interface Follower {
  readonly replica: Replica;
  readonly following: Following;
  readonly sidecarId: SidecarId;
  readonly folder: string;
  readonly isReady: boolean;
  /** How often memory was freed. */
  readonly freed: number;
  /** The version of the gate that is in force here; null: none. */
  gateVersion(gateId: GateId): number | null;
  /** In force here is all that the control plane had committed when this was called. */
  isUpToDate(): Promise<void>;
  stop(): Promise<void>;
}

export async function startFollowed(push: Push): Promise<Followed> {
  const api = await startOwnApi();
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const buses: Bus[] = [];
  const busOf = (): Bus | null => {
    if (push === 'none') return null;
    if (push === 'same process') return api.deps.bus;
    const bus = redisBus({ url: push.redisUrl, logger: silentLogger });
    buses.push(bus);
    return bus;
  };
  const account = await api.createAccount();
  const accountId = account.accountId as AccountId;
  const sidecarKey = (await api.createKey({ scopes: ['sidecars:connect'] }, account.key)).key;
  const deps: Deps = { ...api.deps, bus: busOf() ?? api.deps.bus };
  let app: FastifyInstance | null = null;
  let heartbeat: { stop(): Promise<void> } | null = null;

  const followed: Followed = {
    api,
    deps,
    accountId,
    adminKey: account.key,
    call: async (method, path, body) => {
      const response = await fetch(`${origin}/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: (await response.json()) as Record<string, never> };
    },
    revokeSomebody: () =>
      changeTransaction(deps, (_tx, change) => {
        const passport = idDigest(deps.random.newId('pass', deps.clock.now()));
        const body = { passport, standing: 'revoked', expired_by_day: null } as const;
        return change(globalFeed, { kind: 'passport.standing', body });
      }),
    createGate: async () => {
      const { status, body } = await followed.call('POST', '/gates', { name: 'Orders', trust_level: 'L1' });
      if (status !== 201) throw new Error(`no gate: ${JSON.stringify(body)}`);
      return (body as unknown as { gate_id: GateId }).gate_id;
    },
    updateGate: async (gateId, change) => {
      const { status, body } = await followed.call('PUT', `/gates/${gateId}`, change);
      if (status !== 200) throw new Error(`no update: ${JSON.stringify(body)}`);
    },
    follow: async (options = {}) => {
      const sidecarId = options.sidecarId ?? deps.random.newId('side', deps.clock.now());
      const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'agent-trust-test-'));
      folders.add(folder);
      const follower = await startFollower(deps, {
        sidecarId,
        folder,
        origin,
        apiKey: sidecarKey,
        bus: busOf(),
        onChanges: options.onChanges ?? (() => undefined),
      });
      followers.push(follower);
      return follower;
    },
    goAway: async () => {
      await heartbeat?.stop();
      await app?.close();
      app = null;
      heartbeat = null;
    },
    comeBack: async (changed = {}) => {
      const now = { ...deps, ...changed, metrics: new Registry() };
      app = build(now);
      await app.listen({ host: '127.0.0.1', port });
      const loops = [startPulse(now, [heartbeats(now)]), keepSidecars(now)];
      heartbeat = { stop: async () => void (await Promise.all(loops.map((each) => each.stop()))) };
    },
    close: async () => {
      for (const follower of followers) await follower.stop();
      await followed.goAway();
      for (const bus of buses) await bus.close();
      await api.close();
      for (const folder of folders) rmSync(folder, { recursive: true, force: true });
    },
  };
  const followers: Follower[] = [];
  const folders = new Set<string>();
  await followed.comeBack();
  return followed;
}

async function startFollower(
  deps: Deps,
  options: {
    readonly sidecarId: SidecarId;
    readonly folder: string;
    readonly origin: string;
    readonly apiKey: string;
    readonly bus: Bus | null;
    readonly onChanges: (answer: SealedChangesAnswer) => void;
  },
): Promise<Follower> {
  const { clock, random, ed25519 } = deps;
  const { sidecarId, folder, bus } = options;
  const file = snapshotFile(folder);
  const known = new KnownHistory(folder);
  await known.load();
  const logger = silentLogger;
  const replica = new Replica({ ed25519, clock, logger, pinnedKeys: await file.readTrustedKeys() });
  const client = new ControlPlaneClient({
    origin: options.origin,
    apiKey: options.apiKey,
    sidecarId,
    clock,
    logger,
  });
  const pull = client.changes.bind(client);
  client.changes = async (...call) => {
    const answer = await pull(...call);
    options.onChanges(answer);
    return answer;
  };
  const time = new ControlPlaneTime(clock);
  const catchUp = new CatchUp({ clock, asOfMs: () => replica.asOfMs, logger });
  let freed = 0;
  const following = new Following({
    ...{ replica, client, bus, file, known, time, catchUp, random, logger },
    freeMemory: () => void freed++,
  });
  let isReady = false;
  void following.ready.then(() => {
    isReady = true;
  });
  let isStopped = false;
  return {
    replica,
    following,
    sidecarId,
    folder,
    get isReady() {
      return isReady;
    },
    get freed() {
      return freed;
    },
    gateVersion: (gateId) => replica.gate(gateId)?.version ?? null,
    isUpToDate: async () => {
      const rows = await deps.sql<
        { feed_id: string; revision: number }[]
      >`SELECT feed_id, revision FROM feeds`;
      const head = (feedId: string | null) => rows.find((row) => row.feed_id === feedId)?.revision ?? 0;
      await until(
        () =>
          replica.accountId !== null &&
          replica.accountRevision === head(replica.accountId) &&
          replica.globalRevision === head('global'),
        { what: 'the replica reaches the heads' },
      );
    },
    stop: async () => {
      if (isStopped) return;
      isStopped = true;
      await following.stop();
      await client.close();
    },
  };
}

/** A key of the feeds that nobody vouches for yet, and the keys with it in use. */
export async function newSyncKey(deps: Deps) {
  const { clock, sql, signingKeys } = deps;
  const nowMs = clock.now();
  const made = makeSigningKey(deps, { purpose: 'sync', notBeforeMs: nowMs, createdAtMs: nowMs });
  await sql.begin((tx) => insertSigningKey(tx, made));
  const key = publicHalf(made);
  const own = openSigningKey(deps, made);
  return {
    key,
    signingKeys: {
      current: (purpose: VerificationKey['purpose']) =>
        purpose === 'sync' ? own : signingKeys.current(purpose),
      vouching: () => [own],
      sound: signingKeys.sound,
      bad: () => [],
      all: () => [...signingKeys.all(), key],
      reload: async () => undefined,
    },
  };
}
