import { limits } from '../shared/model/limits.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { StartError } from '../shared/runtime/start-error.ts';

/** Something that runs until it is closed. */
export interface Running {
  close(): Promise<void>;
}

/** npm passes on a Ctrl-C that the terminal has already sent to us: two signals this close together are one. */
const sameSignalMs = 500;

/** What closing may take before the process is ended all the same: requests in flight, then the spool, then the database. */
const closeMsMax = 3 * limits.drainMsMax;

/**
 * Starts a program and resolves with the exit code when it has ended: 0 after SIGINT or SIGTERM, 1 where it could not start or something
 * broke that nobody caught. The first signal closes everything in order, also in the middle of a start; the second ends the process at once.
 * An end in order is logged when it begins and when it is done: a program that was killed says neither.
 */
export async function runUntilSignal(
  start: (signal: AbortSignal) => Promise<Running>,
  logger: Logger,
): Promise<number> {
  const stopping = new AbortController();
  let exitCode = 0;
  const stopRequested = new Promise<void>((resolve) => {
    const stop = (code: number): void => {
      exitCode = Math.max(exitCode, code);
      stopping.abort();
      resolve();
    };
    endOnSignals((signal) => {
      logger.info({ signal }, 'stopping');
      stop(0);
    });
    for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
      process.on(event, (error: unknown) => {
        logger.error({ err: error }, `${event}: the program ends, because its state is unknown`);
        stop(1);
      });
    }
  });

  let running: Running;
  try {
    running = await start(stopping.signal);
  } catch (error) {
    if (stopping.signal.aborted) {
      logger.info({}, 'stopped');
      return exitCode;
    }
    if (error instanceof StartError) process.stderr.write(`agent-trust: ${error.message}\n`);
    else logger.error({ err: error }, 'the program could not start');
    return 1;
  }
  await stopRequested;
  const deadline = setTimeout(() => {
    logger.error({ closeMsMax }, 'closing takes too long and is cut short');
    process.exit(1);
  }, closeMsMax);
  await running.close();
  clearTimeout(deadline);
  logger.info({}, 'stopped');
  return exitCode;
}

function endOnSignals(stop: (signal: NodeJS.Signals) => void): void {
  let firstAtMs: number | null = null;
  const onSignal =
    (code: number) =>
    (signal: NodeJS.Signals): void => {
      const nowMs = performance.now();
      if (firstAtMs === null) {
        firstAtMs = nowMs;
        stop(signal);
      } else if (nowMs - firstAtMs > sameSignalMs) {
        process.exit(code);
      }
    };
  // As a shell reports them: 128 and the number of the signal.
  process.on('SIGINT', onSignal(130));
  process.on('SIGTERM', onSignal(143));
}
