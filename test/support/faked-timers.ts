/** For `vi.useFakeTimers` where the time stands still: all but `nextTick` and microtasks, without which nothing that is awaited would go on. */
export const fakedTimers = [
  'setTimeout',
  'clearTimeout',
  'setInterval',
  'clearInterval',
  'setImmediate',
  'clearImmediate',
  'performance',
  'Date',
] as const;
