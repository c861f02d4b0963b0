/** An interruptible sleep. A `wake` without a sleeper ends the next sleep at once, so none is lost. */
export interface Wakeup {
  wake(): void;
  /** Ends the current sleep, if any. */
  interrupt(): void;
  /** Resolves after the time, or when woken. One sleeper at a time. */
  sleep(timeMs: number): Promise<void>;
}

export function makeWakeup(): Wakeup {
  let isWoken = false;
  let resume: (() => void) | null = null;
  return {
    wake: () => {
      isWoken = true;
      resume?.();
    },
    interrupt: () => resume?.(),
    sleep: async (timeMs) => {
      if (!isWoken && timeMs > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, timeMs);
          resume = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        resume = null;
      }
      isWoken = false;
    },
  };
}
