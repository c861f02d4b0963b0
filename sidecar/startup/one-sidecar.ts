import type { Registry } from 'prom-client';
import { collectGarbage } from '../../shared/runtime/collect-garbage.ts';
import { originOf } from '../../shared/runtime/settings.ts';
import { type Teardown, teardown } from '../../shared/runtime/teardown.ts';
import type { Telemetry } from '../../shared/telemetry/telemetry.ts';
import { buildSidecar } from '../app.ts';
import type { ServerPort } from '../http/server.ts';
import type { ForwardAuthSettings } from '../intake/forward-auth/forward-auth.ts';
import { Standings } from '../intake/standings.ts';
import { Streams } from '../intake/stream/streams.ts';
import { type AnswerCounts, countAnswer, sidecarMetrics } from '../operations/metrics.ts';
import { readOpenApi } from '../operations/read-openapi.ts';
import { type CoreOptions, startCore } from './core.ts';
import { listen } from './listen.ts';

export interface OneSidecarOptions extends Omit<CoreOptions, 'tracer'> {
  readonly server: ServerPort;
  /** Public origin for callers; null: the listening address. */
  readonly origin: string | null;
  readonly forwardAuth: ForwardAuthSettings;
  readonly listener: { readonly host: string; readonly port: number; readonly exclusive: boolean };
  /** Whether its metrics include the process. */
  readonly measuresProcess: boolean;
  /** For one of several on a port: the metrics of all, given its own. Default: its own. */
  readonly metricsText?: (own: Registry) => Promise<string>;
  /** Default: none, nothing is exported. */
  readonly telemetry?: Telemetry | null;
}

export interface OneSidecar {
  readonly port: number;
  /** Resolves when it has a state to decide on, which may be never. */
  readonly ready: Promise<void>;
  readonly metrics: Registry;
  /** Not ready from now on; keeps serving, and closes each connection after its answer. */
  startDraining(): void;
  /**
   * In order: not ready, no new connections, requests in flight answered, their records on disk, and shipped
   * as far as limits.drainMsMax from the start allows; the next start ships the rest. Never rejects.
   */
  close(): Promise<void>;
}

/** The metric of what did not reach the collector. */
export const telemetryLossesName = 'agent_trust_sidecar_telemetry_lost_total';

/**
 * A whole sidecar on one event loop: a core and its HTTP surface. Resolves when it listens, even without a
 * state to decide on: it answers 503 until there is one. Rejects, with everything closed again, if the folder
 * or the address cannot be used.
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
  const { server, telemetry = null } = options;
  // Stopped after all that still makes spans.
  if (telemetry !== null) started.add('telemetry', () => telemetry.close());
  const openApi = await readOpenApi();
  const { tracer = null } = telemetry ?? {};
  const core = await startCore({ ...options, tracer, freeMemory: collectGarbage }, started);
  const { following, replica, logger } = core;

  const streams = new Streams(core);
  const standings = new Standings(core);
  const answers: AnswerCounts = new Map();
  const metrics = sidecarMetrics({ ...core, http: { answers, streams, server } }, options.measuresProcess);
  telemetry?.addLosses(metrics, telemetryLossesName);
  let origin = '';
  const app = buildSidecar({
    ...core,
    streams,
    standings,
    origin: () => origin,
    forwardAuth: options.forwardAuth,
    routesOf: (gateId) => replica.routes(gateId),
    shadowRoutesOf: (gateId) => replica.shadowRoutes(gateId),
    observed: { ...core, server },
    requestsUrl: `${options.controlPlane.origin}/access/v1/requests`,
    openApi,
    metrics: {
      contentType: metrics.contentType,
      text: () => options.metricsText?.(metrics) ?? metrics.metrics(),
    },
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
  if (telemetry !== null)
    started.add(
      'export of metrics',
      telemetry.report(async () => metrics),
    );
  const startDraining = () => {
    app.startDraining();
    listening.startDraining();
    streams.startDraining();
    standings.stop();
  };
  return {
    port: listening.port,
    ready: following.ready,
    metrics,
    startDraining,
    close: () => {
      startDraining();
      return core.close();
    },
  };
}
