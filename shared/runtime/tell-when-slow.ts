import { secondMs } from '../model/time.ts';

/** A step of a start takes less than a second: who waits for longer wants to know for what. */
const firstMs = 5 * secondMs;
/** And then, whether anything moves. */
const everyMs = 30 * secondMs;

/**
 * How a step of a start ends, as it ends. Calls `tell` with the time it has taken so far: after 5 s, and
 * every 30 s from then on.
 */
export async function tellWhenSlow<T>(step: Promise<T>, tell: (seconds: number) => void): Promise<T> {
  const beganAtMs = performance.now();
  const tellNow = () => tell(Math.round((performance.now() - beganAtMs) / secondMs));
  let again: NodeJS.Timeout | undefined;
  const first = setTimeout(() => {
    tellNow();
    again = setInterval(tellNow, everyMs);
  }, firstMs);
  try {
    return await step;
  } finally {
    clearTimeout(first);
    clearInterval(again);
  }
}
