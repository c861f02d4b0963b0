import { readFileSync } from 'node:fs';

/** What is measured runs on one core, everything else on the other. */
export const measuredCore = 0;
export const otherCore = 1;
export const bothCores = `${measuredCore},${otherCore}`;

/** Seconds for which the core has worked, for any program. */
export function coreSeconds(core: number): number {
  const { user, nice, system, irq, softirq } = timesOf(core);
  return (user + nice + system + irq + softirq) / 100;
}

/** Seconds for which one of the two cores had work, and its host gave it to another virtual machine. */
export const stolenSeconds = (): number => (timesOf(measuredCore).steal + timesOf(otherCore).steal) / 100;

/** proc(5): in hundredths of a second since the machine was started, in this order. */
function timesOf(core: number) {
  const line = readFileSync('/proc/stat', 'utf8')
    .split('\n')
    .find((each) => each.startsWith(`cpu${core} `));
  if (line === undefined) throw new Error(`/proc/stat has no line for core ${core}`);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return { user, nice, system, irq, softirq, steal };
}
