import { setTimeout as pause } from 'node:timers/promises';
import { AgentTrustError } from '../../clients/node/src/errors.ts';
import { minuteMs, secondMs } from '../../shared/model/time.ts';
import type { Printer } from './print.ts';

/** How often the service is asked; more seldom with a plan limit, to leave calls for other work. */
const pollMs = secondMs;
const limitedPollMs = 5 * secondMs;

/**
 * Asks until the signal comes, or `ask` has no more to ask. A service that is away is asked again: that it
 * is, and that it answers again, is said once.
 */
export async function pollUntil(
  signal: AbortSignal,
  print: Printer,
  ask: (heard: () => void) => Promise<{ readonly isLimited: boolean } | 'done'>,
): Promise<undefined> {
  let isAway = false;
  const heard = () => {
    if (isAway) print.say('The service answers again.');
    isAway = false;
  };
  while (!signal.aborted) {
    let pauseMs = pollMs;
    try {
      const asked = await ask(heard);
      if (asked === 'done') return undefined;
      if (asked.isLimited) pauseMs = limitedPollMs;
    } catch (error) {
      if (signal.aborted) break;
      if (!isPassing(error)) throw error;
      if (!isAway) print.say(`${error.message} Trying again until it answers.`);
      isAway = true;
      pauseMs = Math.max(pollMs, Math.min(error.retry_after_ms ?? 0, minuteMs));
    }
    // The signal ends the pause; the loop checks it.
    await pause(pauseMs, null, { signal }).catch(() => null);
  }
  return undefined;
}

/** No answer, or one that says "later": what a restart looks like from here. */
export const isPassing = (error: unknown): error is AgentTrustError =>
  error instanceof AgentTrustError &&
  (error.http_status === null || error.http_status === 429 || error.http_status >= 500);
