/** Waits until the condition holds, looking every few milliseconds. Throws, naming `what`, when the time is over. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  options: { readonly what: string; readonly timeoutMs?: number },
): Promise<void> {
  const timeoutMs = options.timeoutMs ?? 10_000;
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      throw new Error(`waited ${timeoutMs} ms in vain: ${options.what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
