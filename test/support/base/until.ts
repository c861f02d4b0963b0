import { countCost, uncounted } from './costs.ts';

const pauseMsMin = 5;

/**
 * Waits until the condition holds, looking every 5 ms at first. Where a look asks another program, which
 * takes time from what is waited for, the pauses grow to `pauseMsMax`, by default 25 ms. Throws, naming
 * `what`, when the time is over: by default only so soon that it is told within the time of a test, for how
 * fast a machine is says nothing about the program.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  options: { readonly what: string; readonly timeoutMs?: number; readonly pauseMsMax?: number },
): Promise<void> {
  countCost('waits');
  const { what, timeoutMs = 60_000, pauseMsMax = 25 } = options;
  const deadline = performance.now() + timeoutMs;
  let pauseMs = pauseMsMin;
  for (let look = condition(); ; look = uncounted(condition)) {
    if (await look) return;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    if (look instanceof Promise) pauseMs = Math.min(pauseMs * 1.25, pauseMsMax);
  }
}

/** Asks until the answer is wanted, and resolves to it. Throws when the time of `until` is over. */
export async function untilAnswer<T>(
  ask: () => Promise<T>,
  isWanted: (answer: T) => boolean,
  options: { readonly what: string },
): Promise<T> {
  let answer = await ask();
  const look = async (): Promise<boolean> => {
    if (!isWanted(answer)) answer = await ask();
    return isWanted(answer);
  };
  await until(look, options);
  return answer;
}
