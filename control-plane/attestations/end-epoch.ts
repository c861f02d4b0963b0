import type { SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { lockEpoch } from '../book/holder-store.ts';
import { returnLeases } from '../book/return-leases.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { together } from '../storage/together.ts';
import { attestationsLimits } from './limits.ts';

/**
 *   returned  what no record took of the leases of the epoch's holders is free for others again
 *   kept      a record may be missing: every unit stays counted until its window ends
 *   known     it had ended before; its first end decided
 */
export type EndOutcome = 'returned' | 'kept' | 'known';

interface EndedEpoch {
  readonly sidecarId: SidecarId;
  readonly epoch: string;
  /** The last number of the epoch; all records up to it are stored. */
  readonly lastSeq: number;
  /** The sidecar states that they include every answered PERMIT (EpochEnd). */
  readonly nothingLost: boolean;
}

/**
 * Ends the epoch of a sidecar's spool after its process has ended: no record follows. Needs a separate
 * transaction after the one that stored the last records: that one has locked chains, and the holders of the
 * leases to return come before chains.
 */
export async function endEpoch(sql: Database, ended: EndedEpoch, nowMs: UnixMillis): Promise<EndOutcome> {
  const { sidecarId, epoch, lastSeq, nothingLost } = ended;
  return sql.begin(async (tx) => {
    await together([
      () => boundWaits(tx, { lockMsMax: attestationsLimits.ingestLockMsMax }),
      () => lockEpoch(tx, ended),
    ]);
    const [row] = await tx<{ isWhole: boolean }[]>`
      UPDATE sidecar_epochs SET ended_at_ms = ${databaseNowMs(tx)}
      WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch} AND ended_at_ms IS NULL
      RETURNING is_whole AND last_seq = ${lastSeq} AS "isWhole"`;
    if (row === undefined) return 'known';
    if (!nothingLost || !row.isWhole) return 'kept';
    await returnLeases(tx, ended, nowMs);
    return 'returned';
  });
}
