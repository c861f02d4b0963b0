import { Registry } from 'prom-client';
import type { Bus } from '../shared/bus/bus.ts';
import { redisBus } from '../shared/bus/redis.ts';
import { ApiError } from '../shared/errors/api-error.ts';
import { systemClock } from '../shared/runtime/clock.ts';
import { lockDataDir } from '../shared/runtime/data-dir-lock.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { systemRandom } from '../shared/runtime/random.ts';
import type { SidecarSettings } from '../shared/runtime/settings.ts';
import { type Teardown, teardown } from '../shared/runtime/teardown.ts';
import { errorReply } from './decide/replies.ts';
import { chooseServer } from './http/choose-server.ts';
import type { ServerPort } from './http/server.ts';
import { sidecarTelemetry, startFromSettings } from './startup/from-settings.ts';
import { shipLeftovers } from './startup/leftover-spools.ts';
import { listen } from './startup/listen.ts';
import { telemetryLossesName } from './startup/one-sidecar.ts';
import { growYoungGenerationAtOnce } from './startup/young-generation.ts';
import { startThreads } from './threads/start-threads.ts';

export interface SidecarExtras {
  /**
   * The bus of a control plane in the same process; stays its owner's. Absent: Redis where it is set, else
   * long polls.
   */
  readonly bus?: Bus;
  /** Absent: the best server that works here. */
  readonly server?: ServerPort;
  readonly logger: Logger;
}

export interface RunningSidecar {
  readonly port: number;
  /**
   * Resolves when it, and each of its threads, has a state to decide on. Never rejects; does not resolve
   * while the control plane is away, or refuses it, and there is no state from an earlier run.
   */
  readonly ready: Promise<void>;
  /** From now on it is not ready and closes each connection after its answer; it goes on serving. */
  startDraining(): void;
  /**
   * Stops as SIGTERM should: not ready, no new connections, requests in flight answered, their records on
   * disk and shipped as far as limits.drainMsMax allows. Never rejects; a second call waits for the first.
   */
  close(): Promise<void>;
}

/**
 * Starts a sidecar: one on this event loop, or `SIDECAR_THREADS` of them on one port. Resolves when it
 * listens, which does not say that it is ready: without a control plane and without a state from an earlier
 * run it answers 503 until there is one. Throws StartError where DATA_DIR is in use or the address cannot be
 * had. Handles no signal and never ends the process.
 */
export async function startSidecar(
  settings: SidecarSettings,
  extras: SidecarExtras,
): Promise<RunningSidecar> {
  const started = teardown(extras.logger);
  try {
    const running = await startAll(settings, extras, started);
    return { ...running, close: () => started.run() };
  } catch (error) {
    await started.run();
    throw error;
  }
}

async function startAll(
  settings: SidecarSettings,
  extras: SidecarExtras,
  started: Teardown,
): Promise<Omit<RunningSidecar, 'close'>> {
  const { logger } = extras;
  growYoungGenerationAtOnce();
  const lock = await lockDataDir(settings.DATA_DIR, 'sidecar');
  started.add('lock of DATA_DIR', () => lock.release());
  for (const note of lock.notes) logger.warn({}, note);
  const server = extras.server ?? (await chooseServer(process.env, settings.SIDECAR_HTTP));
  if (server.fallbackReason !== null) {
    logger.warn(
      { reason: server.fallbackReason },
      'uWebSockets.js does not load here: node:http answers instead, at about half the speed',
    );
  }
  const threads = threadsFor(settings, server, logger);

  const leftovers = shipLeftovers(settings, { threads, logger });
  started.add('shipping for earlier threads', () => leftovers.stop());
  const running = await (threads === 1
    ? startSingle(settings, { ...extras, server }, started)
    : startThreaded(settings, { logger, server }, started));
  if (server.fallbackReason !== null) {
    logger.warn(
      { server: server.name, reason: server.fallbackReason },
      'the slower HTTP server answers; SIDECAR_HTTP=node chooses it without this warning',
    );
  }
  logger.info(
    { port: running.port, threads, server: server.name, fallback_reason: server.fallbackReason },
    'sidecar is listening',
  );
  return running;
}

function threadsFor(settings: SidecarSettings, server: ServerPort, logger: Logger): number {
  const threads = settings.SIDECAR_THREADS;
  if (threads === 1 || server.sharesPorts) return threads;
  logger.warn(
    { threads, server: server.name },
    'this server cannot share a port: one thread listens instead of several',
  );
  return 1;
}

async function startSingle(
  settings: SidecarSettings,
  { logger, server, bus }: SidecarExtras & { readonly server: ServerPort },
  started: Teardown,
): Promise<Omit<RunningSidecar, 'close'>> {
  const ownBus =
    bus === undefined && settings.REDIS_URL !== null ? redisBus({ url: settings.REDIS_URL, logger }) : null;
  if (ownBus !== null) started.add('bus', () => ownBus.close());
  const sidecar = await startFromSettings(settings, {
    index: 0,
    port: settings.SIDECAR_PORT,
    exclusive: true,
    server,
    bus: bus ?? ownBus,
    logger,
  });
  started.add('sidecar', () => sidecar.close());
  return sidecar;
}

async function startThreaded(
  settings: SidecarSettings,
  { logger, server }: { readonly logger: Logger; readonly server: ServerPort },
  started: Teardown,
): Promise<Omit<RunningSidecar, 'close'>> {
  const port = await soleUseOf(server, settings, logger);
  const own = new Registry();
  const telemetry = await sidecarTelemetry({ ...settings, OTEL_TRACES_EXPORTER: 'none' }, logger);
  telemetry?.addLosses(own, telemetryLossesName);
  if (telemetry !== null) started.add('telemetry', () => telemetry.close());
  const threads = await startThreads({ settings, port, own, logger });
  started.add('listening threads', () => threads.close());
  if (telemetry !== null)
    started.add(
      'export of metrics',
      telemetry.report(() => threads.metrics()),
    );
  return { port, ready: threads.ready, startDraining: () => threads.startDraining() };
}

/**
 * A port that is shared can be joined unnoticed by another process: listen on it alone for a moment, to make
 * sure that no other process does.
 */
async function soleUseOf(server: ServerPort, settings: SidecarSettings, logger: Logger): Promise<number> {
  const random = systemRandom();
  const notYet = () =>
    errorReply(new ApiError('service_unavailable'), random.newId('req', systemClock.now()));
  const probe = await listen(server, {
    host: settings.SIDECAR_HOST,
    port: settings.SIDECAR_PORT,
    exclusive: true,
    handler: notYet,
    refuse: notYet,
    logger,
  });
  await probe.close();
  return probe.port;
}
