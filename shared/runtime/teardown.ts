import type { Logger } from './logger.ts';

/** What has been started and must be stopped again. */
export interface Teardown {
  /** Call it right after the thing has been started. `what` is for the log. */
  add(what: string, stop: () => unknown): void;
  /**
   * Stops everything, the last one first, each after the one before it is done. Calling it again gives the
   * same promise. Never rejects.
   */
  run(): Promise<void>;
}

/** One that fails to stop is logged and does not keep the others from being stopped. */
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
