import { join } from 'node:path';
import type { Registry } from 'prom-client';
import type { Bus } from '../../shared/bus/bus.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { originOf } from '../../shared/runtime/settings.ts';
import { type Teardown, teardown } from '../../shared/runtime/teardown.ts';
import { buildSidecar } from '../app.ts';
import { startShipper } from '../attest/shipper.ts';
import { openSpool } from '../attest/spool.ts';
import { enforcer as makeEnforcer } from '../enforce/enforce.ts';
import { settlements as makeSettlements } from '../enforce/settlements.ts';
import type { ForwardAuthSettings } from '../forward-auth/forward-auth.ts';
import type { ServerPort } from '../http/server.ts';
import { type AnswerCounts, countAnswer, sidecarMetrics } from '../operations/metrics.ts';
import { readOpenApi } from '../operations/read-openapi.ts';
import { leaseHolder } from '../quota/lease-holder.ts';
import { CatchUp } from '../replica/catch-up.ts';
import { controlPlaneClient } from '../replica/control-plane-client.ts';
import type { ControlPlaneTime } from '../replica/control-plane-time.ts';
import { startFollowing } from '../replica/follow.ts';
import { Reach } from '../replica/reach.ts';
import { Replica } from '../replica/replica.ts';
import { snapshotFile } from '../replica/snapshot-file.ts';
import { Streams } from '../stream/streams.ts';
import { verifyPool } from '../verify/pool.ts';
import { verifiedCache } from '../verify/verified-cache.ts';
import { passportVerifier } from '../verify/verifier.ts';
import { sidecarIdOf } from './identity.ts';
import { startupLimits } from './limits.ts';
import { listen } from './listen.ts';

export interface OneSidecarOptions {
  /** Its own: the id, the last known state and the spool are kept there. */
  readonly folder: string;
  readonly controlPlane: { readonly origin: string; readonly apiKey: string };
  readonly fsyncMs: number;
  readonly server: ServerPort;
  /** As its callers reach it; null: the address that it listens on. */
  readonly origin: string | null;
  readonly forwardAuth: ForwardAuthSettings;
  readonly listener: { readonly host: string; readonly port: number; readonly exclusive: boolean };
  /** Null: it follows by long polls. Stays its owner's. */
  readonly bus: Bus | null;
  readonly verifyThreads: number;
  /** Whether its figures include those of the process. */
  readonly measuresProcess: boolean;
  /** Where it is one of several on a port: the figures of all of them, given its own. Default: its own. */
  readonly metricsText?: (own: Registry) => Promise<string>;
  /** Default: limits.drainMsMax. Tests whose control plane is away make it small. */
  readonly drainMsMax?: number;
  /** Default: limits.quotaWaitMsMax. Tests on busy machines make it longer. */
  readonly quotaWaitMs?: number;
  readonly time: ControlPlaneTime;
  readonly random: Random;
  readonly logger: Logger;
}

export interface OneSidecar {
  readonly port: number;
  readonly metrics: Registry;
  /** From now on it is not ready and closes each connection behind its answer; it goes on serving. */
  startDraining(): void;
  /**
   * Not ready, then no new connections, then the requests in flight are answered, then their records are on
   * disk, and shipped as far as limits.drainMsMax from the beginning allows; the next start ships the rest.
   * Never rejects.
   */
  close(): Promise<void>;
}

/**
 * A whole sidecar on one event loop: replica, verifier, spool and HTTP, wired. Resolves when it listens, also
 * while it has no state to decide on yet: it answers 503 then. Rejects, with everything closed again, where
 * the folder or the address cannot be had.
 */
export async function startOneSidecar(options: OneSidecarOptions): Promise<OneSidecar> {
  const started = teardown(options.logger);
  try {
    return await start(options, started);
  } catch (error) {
    await started.run();
    throw error;
  }
}

async function start(options: OneSidecarOptions, started: Teardown): Promise<OneSidecar> {
  const { folder, time, random, logger, server } = options;
  const { clock } = time;
  const openApi = await readOpenApi();
  const ed25519 = chooseEd25519();
  const sidecarId = await sidecarIdOf(folder, { clock, random });
  const file = snapshotFile(folder);
  const replica = new Replica({ ed25519, clock, logger, pinnedKeys: await file.readTrustedKeys() });

  const reach = new Reach(time.machine);
  const client = controlPlaneClient({ ...options.controlPlane, sidecarId, clock: time.machine, reach });
  started.add('calls to the control plane', () => client.close());
  const catchUp = new CatchUp({ clock: time.machine, asOfMs: () => replica.asOfMs, logger });
  started.add('watch on this loop', async () => catchUp.stop());
  const following = startFollowing({
    replica,
    client,
    bus: options.bus,
    file,
    time,
    catchUp,
    random,
    logger,
  });
  reach.onBack(() => following.endPause());
  started.add('following', () => following.stop());
  const spool = await openSpool({
    directory: join(folder, 'spool'),
    fsyncMs: options.fsyncMs,
    clock,
    random,
    logger,
  });
  const shipper = startShipper({ spool, client, connection: () => client.connection, random, logger });
  reach.onBack(() => shipper.endPause());
  // Set by close: what was given to nobody is left for the next start at once.
  let closedByMs = Number.NEGATIVE_INFINITY;
  started.add('spool', async () => {
    await spool.close();
    const isAllShipped = await shipper.drain(Math.max(0, closedByMs - clock.monotonic()));
    if (isAllShipped) return;
    logger.error(
      { records: await shipper.countLeft(), bytes: spool.waitingBytes, folder: spool.directory },
      'records are left in the spool: no export contains them until a sidecar starts with this folder again',
    );
  });

  const pool = verifyPool({ threads: options.verifyThreads, logger });
  const verifier = passportVerifier({
    keys: () => replica.keys,
    cache: verifiedCache(startupLimits.verifiedPassportsMax),
    pool,
    clock,
    logger,
    // The others need 117 us and 1.1 ms: too long for everybody else on this event loop.
    inlineWhenAlone: ed25519.name === 'sodium-native',
  });
  started.add('verification', () => verifier.close());
  const leases = leaseHolder({ client, epoch: () => spool.epoch, clock, random, logger });
  reach.onBack(() => leases.endPause());
  started.add('leases', () => leases.stop());
  const settlements = makeSettlements({
    send: client.settle,
    isAway: () => client.isAway,
    clock,
    random,
    logger,
  });
  started.add('settlements', () => settlements.stop());
  const enforcer = makeEnforcer({
    state: replica,
    verifier,
    leases,
    settlements,
    catchUp,
    spool,
    quotaWaitMs: options.quotaWaitMs ?? limits.quotaWaitMsMax,
    clock,
    random,
    logger,
  });
  started.add('deadlines', () => enforcer.stop());
  await pool.ready();

  const streams = new Streams({
    enforcer,
    verifier,
    mustNotServe: () => following.mustNotServe,
    clock,
    random,
  });
  const answers: AnswerCounts = new Map();
  const metrics = sidecarMetrics(
    {
      enforcer,
      leases,
      settlements,
      verifier,
      spool,
      shipper,
      replica,
      clock,
      following,
      answers,
      streams,
      server,
      ed25519,
    },
    options.measuresProcess,
  );
  let origin = '';
  const app = buildSidecar({
    enforcer,
    verifier,
    streams,
    origin: () => origin,
    forwardAuth: options.forwardAuth,
    routesOf: (gateId) => replica.routes(gateId),
    observed: { replica, following, spool, shipper, server, ed25519 },
    openApi,
    metrics: {
      contentType: metrics.contentType,
      text: () => options.metricsText?.(metrics) ?? metrics.metrics(),
    },
    clock,
    random,
    logger,
  });
  const listening = await listen(server, {
    ...options.listener,
    handler: app.handler,
    refuse: app.refuse,
    ...(app.headerNamesOf !== undefined && { headerNamesOf: app.headerNamesOf }),
    ...(app.streamPath !== undefined && { streamPath: app.streamPath }),
    onAnswer: countAnswer(answers),
    logger,
  });
  origin = options.origin ?? originOf({ host: options.listener.host, port: listening.port });
  started.add('HTTP', () => listening.close());
  started.add('streams', () => streams.close());
  const startDraining = () => {
    app.startDraining();
    listening.startDraining();
    streams.startDraining();
  };
  return {
    port: listening.port,
    metrics,
    startDraining,
    close: () => {
      startDraining();
      closedByMs = clock.monotonic() + (options.drainMsMax ?? limits.drainMsMax);
      return started.run();
    },
  };
}
