import type { Logger } from './logger.ts';
import type { Round } from './repeat.ts';

/** In the words of the log. */
interface Words {
  readonly begins: string;
  readonly ends: string;
}

/** Tells of trouble when it begins and when it ends, and not each time. */
export function tellTrouble(logger: Pick<Logger, 'info' | 'warn'>, { begins, ends }: Words) {
  let isOn = false;
  return {
    isOn: () => isOn,
    /** Null: it went well. */
    note: (error: unknown) => {
      if (error !== null && !isOn) logger.warn({ err: error }, begins);
      if (error === null && isOn) logger.info({}, ends);
      isOn = error !== null;
    },
  };
}

/** A round of `repeat` that may throw, as one that tells of it and is tried again after `pauseMs`. */
export function tellingTrouble(
  round: Round,
  { logger, pauseMs, ...words }: Words & { readonly logger: Logger; readonly pauseMs: number },
): Round {
  const trouble = tellTrouble(logger, words);
  return async (state) => {
    try {
      const nextMs = await round(state);
      trouble.note(null);
      return nextMs;
    } catch (error) {
      trouble.note(error);
      return pauseMs;
    }
  };
}
