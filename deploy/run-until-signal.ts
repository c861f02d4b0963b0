import { closeSync, fstatSync, openSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { limits } from '../shared/model/limits.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { StartError } from '../shared/runtime/start-error.ts';

/** Something that runs until it is closed. */
export interface Running {
  /** From now on it is not ready and closes each connection after its answer; it goes on serving. */
  startDraining(): void;
  close(): Promise<void>;
}

/**
 * npm passes on a Ctrl-C that the terminal has already sent to us: two signals this close together are one.
 */
const sameSignalMs = 500;

/**
 * What closing may take before the process is ended all the same: requests in flight, then the spool, then
 * the database.
 */
const closeMsMax = 3 * limits.drainMsMax;

/**
 * What a start that is told to end may take to undo what it has begun. It has answered nobody yet, and
 * promised nothing.
 */
const startEndMsMax = limits.drainMsMax;

/**
 * Starts a program and resolves with the exit code when it has ended: 0 after SIGINT, SIGTERM or SIGHUP (its
 * terminal was closed), 1 where it could not start or something broke that nobody caught. The first signal
 * closes everything in order, also in the middle of a start; the second ends the process at once. Between a
 * signal and the closing the program drains for `drainGraceMs`; after an error nobody caught it does not. An
 * end in order is logged when it begins and when it is done: a program that was killed says neither.
 */
export async function runUntilSignal(
  start: (signal: AbortSignal) => Promise<Running>,
  logger: Logger,
  { drainGraceMs }: { readonly drainGraceMs: number },
): Promise<number> {
  ignoreLostOutput();
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

  /**
   * Ends the process all the same when the closing takes too long, for example because a file system does not
   * answer.
   */
  const cutShortAfter = (ms: number, what: string): NodeJS.Timeout =>
    setTimeout(() => {
      logger.error({ after_ms: ms }, `${what} takes too long and is cut short`);
      endNow(1);
    }, ms);

  let running: Running;
  let startDeadline: NodeJS.Timeout | undefined;
  const boundStart = () => {
    startDeadline = cutShortAfter(startEndMsMax, 'ending the start');
  };
  stopping.signal.addEventListener('abort', boundStart);
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
  stopping.signal.removeEventListener('abort', boundStart);
  clearTimeout(startDeadline);
  await stopRequested;
  running.startDraining();
  if (exitCode === 0) await pause(drainGraceMs);
  const deadline = cutShortAfter(closeMsMax, 'closing');
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
        endNow(code);
      }
    };
  // As a shell reports them: 128 and the number of the signal.
  process.on('SIGINT', onSignal(130));
  process.on('SIGTERM', onSignal(143));
  process.on('SIGHUP', onSignal(129));
}

/**
 * A closed terminal (EIO), a reader that has gone (EPIPE) and a full disk (ENOSPC) take what is printed, and
 * nothing else: without a listener the error would end the program.
 */
function ignoreLostOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/**
 * Ends the process now. `process.exit` waits for the threads that do file operations, so that a file system
 * that hangs would keep the process for as long as it hangs: where such an operation is under way, the
 * process kills itself instead.
 */
function endNow(code: number): void {
  leaveClosedTerminal();
  const isInFileSystem = process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq'));
  if (isInFileSystem) process.kill(process.pid, 'SIGKILL');
  process.exit(code);
}

/**
 * Before the process ends: Node.js restores the terminal as its last act, and aborts (SIGABRT) where
 * that has been closed. So the three standard streams lead to /dev/null then.
 */
export function leaveClosedTerminal(): void {
  for (const standard of [0, 1, 2]) {
    try {
      if (!fstatSync(standard).isCharacterDevice() || isatty(standard)) continue;
      closeSync(standard);
      // Takes the lowest number that is free: the same.
      openSync('/dev/null', 'r+');
    } catch {
      // It was closed when the program started.
    }
  }
}
