/**
 * Room `sidecar/embedded`: a core inside the process of a service, which imports it as
 * `agent-trust/embedded`.
 */

import { redisBus } from '../../shared/bus/redis.ts';
import { lockDataDir } from '../../shared/runtime/data-dir-lock.ts';
import { standardErrorLogger } from '../../shared/runtime/logger.ts';
import { teardown } from '../../shared/runtime/teardown.ts';
import { inProcessLimits } from '../intake/in-process/limits.ts';
import { type Core, startCore } from '../startup/core.ts';
import { coreFromSettings } from '../startup/from-settings.ts';
import { shipLeftovers } from '../startup/leftover-spools.ts';
import { embed } from './embed.ts';
import type { EmbeddedAgentTrust } from './embedded-agent-trust.ts';
import { type EmbeddedOptions, givenLogger, loggerOf, readyWaitOf, settingsOf } from './options.ts';

export type { CallOptions } from '../../clients/node/src/call-options.ts';
export {
  AgentTrustError,
  ConflictError,
  ForbiddenError,
  InvalidRequestError,
  NotFoundError,
} from '../../clients/node/src/errors.ts';
export type { Block, DecisionRequest, Permit, Suspend } from '../../clients/node/src/generated/api.ts';
export type {
  CheckInput,
  Decision,
  Unavailable,
  UnavailableReason,
} from '../../clients/node/src/sidecar.ts';
export type { EmbeddedAgentTrust, EmbeddedCheck } from './embedded-agent-trust.ts';
export type { EmbeddedLogger, EmbeddedOptions } from './options.ts';

/**
 * Starts a core on this event loop, with its own threads for signatures. Resolves when it can decide, or
 * after `readyWaitMs`: checks are UNAVAILABLE until there is a state. Throws TypeError for unusable options,
 * and Error if `dataDir` is in use or cannot be written.
 *
 * Reads no environment, handles no signal and never ends the process. Several may run in one process, each
 * with its own `dataDir`.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedAgentTrust> {
  const settings = settingsOf(options);
  const given = givenLogger(options);
  const logger =
    given === null
      ? standardErrorLogger({ level: settings.LOG_LEVEL, name: 'agent-trust' })
      : loggerOf(given);
  const started = teardown(logger);
  try {
    const lock = await lockDataDir(settings.DATA_DIR, 'sidecar');
    started.add('lock of DATA_DIR', () => lock.release());
    for (const note of lock.notes) logger.warn({}, note);
    const leftovers = shipLeftovers(settings, { threads: 1, logger });
    started.add('shipping for earlier threads', () => leftovers.stop());
    const bus = settings.REDIS_URL === null ? null : redisBus({ url: settings.REDIS_URL, logger });
    if (bus !== null) started.add('bus', () => bus.close());
    const { checksPerTurnMax: checksPerTurn } = inProcessLimits;
    const core = await startCore({ ...coreFromSettings(settings, 0), checksPerTurn, bus, logger }, started);
    const embedded = embed(core, started);
    await readyWithin(core, readyWaitOf(options));
    return embedded;
  } catch (error) {
    await started.run();
    throw error;
  }
}

async function readyWithin({ following }: Core, timeMsMax: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeIsOver = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeMsMax);
  });
  await Promise.race([following.ready, timeIsOver]);
  clearTimeout(timer);
}
