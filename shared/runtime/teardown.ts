import type { Logger } from './logger.ts';

/** Started parts that must be stopped again. */
export interface Teardown {
  /** Call it right after the start of the part. `what` is for the log. */
  add(what: string, stop: () => unknown): void;
  /**
   * Stops everything in reverse order, one after the other. Repeated calls return the same promise. Never
   * rejects.
   */
  run(): Promise<void>;
}

/** A failure to stop one is logged, and the others are stopped all the same. */
export function teardown(logger: Logger): Teardown {
  const stops: { readonly what: string; readonly stop: () => unknown }[] = [];
  let running: Promise<void> | null = null;
  const stopAll = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) {
      try {
        await next.stop();
      } catch (error) {
        logger.error({ err: error, what: next.what }, 'could not be stopped in order');
      }
    }
  };
  return {
    add: (what, stop) => void stops.push({ what, stop }),
    run: () => {
      running ??= stopAll();
      return running;
    },
  };
}
