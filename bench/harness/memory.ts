import { existsSync, readFileSync, writeFileSync } from 'node:fs';

import type { Table } from './table.ts';
import { type TargetName, targets } from './targets.ts';

const kibibyte = 1024;

/**
 * Bytes of memory of a process, now and at most since its start or `forgetPeak` (proc(5), VmRSS and VmHWM); 0
 * once it has ended.
 */
export function memoryOf(pid: number): { readonly now: number; readonly peak: number } {
  const path = `/proc/${pid}/status`;
  const status = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const read = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * kibibyte;
  return { now: read('VmRSS'), peak: read('VmHWM') };
}

/** Resets the peak to the current figure. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

export const mebibytes = (bytes: number): string => (bytes / kibibyte ** 2).toFixed(1);

/** What one step has taken. */
export interface MemoryTaken {
  readonly what: string;
  readonly bytes: number;
}

/** A note per step; the largest step is judged by the target, in MiB. */
export function judgedMemory(
  target: TargetName,
  steps: readonly MemoryTaken[],
): Pick<Table, 'notes'> & Required<Pick<Table, 'judged'>> {
  const { wanted } = targets[target];
  const judged = steps.map(({ bytes }) => ({ target, figure: bytes / kibibyte ** 2, disturbed: null }));
  const notes = steps.map(({ what, bytes }) => {
    const isMet = bytes <= wanted * kibibyte ** 2;
    return `${what}: ${mebibytes(bytes)} MiB (${target}: ${wanted.toFixed(1)} ${isMet ? 'met' : '**missed**'}).`;
  });
  return { notes, judged };
}
