import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import type { Bus } from '../../shared/bus/bus.ts';
import { secondMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import type { SidecarSettings } from '../../shared/runtime/settings.ts';
import { startTelemetry } from '../../shared/telemetry/start-telemetry.ts';
import type { Telemetry } from '../../shared/telemetry/telemetry.ts';
import type { Keeping } from '../attest/kept-segments.ts';
import { attestLimits } from '../attest/limits.ts';
import type { ServerPort } from '../http/server.ts';
import { ControlPlaneTime } from '../replica/control-plane-time.ts';
import type { CoreOptions } from './core.ts';
import { startupLimits } from './limits.ts';
import { type OneSidecar, startOneSidecar } from './one-sidecar.ts';

/** The folders of a sidecar's threads, by index. */
export const threadsFolder = (settings: SidecarSettings): string => join(settings.DATA_DIR, 'sidecar');
export const threadFolder = (settings: SidecarSettings, index: number): string =>
  join(threadsFolder(settings), String(index));

/** One of the `SIDECAR_THREADS` sidecars of a process, from its settings. */
export async function startFromSettings(
  settings: SidecarSettings,
  options: {
    readonly index: number;
    readonly port: number;
    readonly exclusive: boolean;
    readonly server: ServerPort;
    readonly bus: Bus | null;
    readonly metricsText?: (own: Registry) => Promise<string>;
    readonly logger: Logger;
  },
): Promise<OneSidecar> {
  const { index, port, exclusive, ...rest } = options;
  const core = coreFromSettings(settings, index);
  return startOneSidecar({
    ...rest,
    ...core,
    telemetry: await sidecarTelemetry(settings, options.logger),
    origin: settings.GATE_HOST,
    forwardAuth: { trust: settings.FORWARD_AUTH_TRUST, headers: settings.FORWARD_AUTH_HEADERS ?? [] },
    listener: { host: settings.SIDECAR_HOST, port, exclusive },
    // Figures of the whole process: reported by one thread only, because threads are added up.
    measuresProcess: index === 0,
  });
}

/** What a sidecar exports to a collector of OpenTelemetry; null: nothing. */
export const sidecarTelemetry = (settings: SidecarSettings, logger: Logger): Promise<Telemetry | null> =>
  startTelemetry(settings, { serviceName: 'agent-trust-sidecar', random: systemRandom(), logger });

/** Core options of one of the `SIDECAR_THREADS` sidecars. */
export const coreFromSettings = (
  settings: SidecarSettings,
  index: number,
): Omit<CoreOptions, 'bus' | 'logger'> => ({
  folder: threadFolder(settings, index),
  controlPlane: { origin: settings.CONTROL_PLANE_URL, apiKey: settings.SIDECAR_API_KEY },
  fsyncMs: settings.SPOOL_FSYNC_MS,
  keeping: keepingFrom(settings),
  verifyThreads: verifyThreadsFor(settings.SIDECAR_THREADS),
  time: new ControlPlaneTime(systemClock),
  random: systemRandom(),
});

/** The threads of a sidecar divide the room for what they have shipped. */
export const keepingFrom = (settings: SidecarSettings): Keeping => ({
  ms: settings.SPOOL_KEEP_SHIPPED_S * secondMs,
  bytesMax: Math.floor(attestLimits.keptBytesMax / settings.SIDECAR_THREADS),
});

/** The remaining cores, divided among the listening threads; at least one each. */
function verifyThreadsFor(listeningThreads: number): number {
  const each = Math.floor((availableParallelism() - listeningThreads) / listeningThreads);
  return Math.min(Math.max(each, 1), startupLimits.verifyThreadsMax);
}
