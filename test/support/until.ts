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
