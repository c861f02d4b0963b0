import { secondMs } from '../model/time.ts';

/** A step of a start takes less than a second; after this the operator is told what it waits for. */
const firstMs = 5 * secondMs;
/** Interval of further messages. */
const everyMs = 30 * secondMs;

/** Resolves or rejects like `step`. Calls `tell` with the elapsed time: after 5 s, then every 30 s. */
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
