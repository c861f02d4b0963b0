/**
 * Waits until the condition holds, looking every few milliseconds. Throws, naming `what`, when the time is
 * over: by default only so soon that it is told within the time of a test, for how fast a machine is says
 * nothing about the program.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  options: { readonly what: string; readonly timeoutMs?: number },
): Promise<void> {
  const timeoutMs = options.timeoutMs ?? 60_000;
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      throw new Error(`waited ${timeoutMs} ms in vain: ${options.what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
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
