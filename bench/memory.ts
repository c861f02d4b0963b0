import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const kibibyte = 1024;

/**
 * Bytes of memory that a process has now, and has had at most since it began or since `forgetPeak` (proc(5),
 * VmRSS and VmHWM); 0 once it has ended.
 */
export function memoryOf(pid: number): { readonly now: number; readonly peak: number } {
  const path = `/proc/${pid}/status`;
  const status = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const read = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * kibibyte;
  return { now: read('VmRSS'), peak: read('VmHWM') };
}

/** The peak is what it has now. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

export const mebibytes = (bytes: number): string => (bytes / kibibyte ** 2).toFixed(1);
