/**
 * Milliseconds of a processor that the work took, in all threads of this process. Unlike the time that
 * passes, they do not grow with what else the machine has to do.
 */
export function cpuMsOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
