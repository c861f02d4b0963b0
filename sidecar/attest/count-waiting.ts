import { attestLimits } from './limits.ts';
import type { SpoolFiles } from './spool-files.ts';
import type { SpoolEpoch } from './spool-folder.ts';
import { findFrame, frameEnd, lastSeqOf } from './spool-segment.ts';

/**
 * Counts the records in these epochs from `nextSeq` of the first one on. Reads only the last segment of each
 * epoch; the names of segments count the rest. Damaged records count too, because they were acknowledged.
 * Rejects if the disk fails.
 */
export async function countWaiting(
  files: SpoolFiles,
  epochs: readonly SpoolEpoch[],
  nextSeq: number | null,
): Promise<number> {
  let count = 0;
  for (const [index, epoch] of epochs.entries()) {
    const first = epoch.segments[0]?.firstSeq;
    if (first === undefined) continue;
    const from = index === 0 && nextSeq !== null ? nextSeq : first;
    count += Math.max(0, (await findLastSeq(files, epoch)) - from + 1);
  }
  return count;
}

/** The number of the last whole record; if the last segment holds none, the number before its first. */
async function findLastSeq(files: SpoolFiles, epoch: SpoolEpoch): Promise<number> {
  const segment = epoch.segments.at(-1);
  if (segment === undefined) return 0;
  const window = Buffer.allocUnsafe(attestLimits.spoolReadBytes);
  let last = segment.firstSeq - 1;
  for (let offset = 0; offset < segment.bytes; ) {
    const bytes = await files.read(
      segment.path,
      window,
      Math.min(window.length, segment.bytes - offset),
      offset,
    );
    if (bytes === 0) break;
    let at = findFrame(window, 0, bytes, last);
    const firstAt = at;
    for (let end = frameEnd(window, at, bytes); end > 0; end = frameEnd(window, at, bytes)) {
      last = Math.max(last, lastSeqOf(window, at));
      at = end;
    }
    // A frame cut by the window is read again from its start. A window without a frame holds only damage.
    offset += at === firstAt ? bytes : at;
  }
  return last;
}
