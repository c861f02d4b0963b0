/** A step of a start takes less than a second: who waits for longer wants to know for what. */
const slowMs = 5_000;

/** How a step of a start ends, as it ends. Calls `tell` once where that is not within 5 s. */
export async function tellWhenSlow<T>(step: Promise<T>, tell: () => void): Promise<T> {
  const timer = setTimeout(tell, slowMs);
  try {
    return await step;
  } finally {
    clearTimeout(timer);
  }
}
