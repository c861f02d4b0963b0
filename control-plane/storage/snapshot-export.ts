import { once } from 'node:events';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { storageLimits } from './limits.ts';
import { ReplicaPassedOver } from './replica.ts';
import { atReplicaOr, replicaOf } from './replica-reads.ts';

/** Bounds of exports; see limits.ts for what each is good for. */
export interface ExportBounds {
  readonly atOnceMax: number;
  readonly perOwnerMax: number;
  readonly exportStallMsMax: number;
  readonly exportMsMax: number;
}

/**
 * What `pieces` reads in one snapshot for an account, as a stream that is read from PostgreSQL no faster than
 * its reader takes it.
 */
export type ExportSnapshot = (accountId: AccountId, pieces: Pieces) => Promise<Readable>;

type Pieces = (tx: Transaction) => AsyncIterable<Buffer>;

/**
 * All of an export is read in one REPEATABLE READ transaction: it is the state of one moment, and each
 * chain's header agrees with its records whatever is appended meanwhile.
 *
 * The promise is kept when there is something to read: what goes wrong before rejects it. Whatever ends the
 * export later (the reader leaves or stalls, the database goes away, the time is over) ends the transaction,
 * frees its connection and breaks the stream off; the file then lacks its end, and no verifier takes it for
 * whole. Rejects with `overloaded` when too many exports are running.
 *
 * With DATABASE_READ_URL it is read there. Where that fails before there is something to read, it begins
 * again at the primary, within the same bounds; what the replica breaks off later has to be asked for again.
 */
export function snapshotExporter(
  deps: Pick<BaseDeps, 'sql' | 'logger'>,
  bounds: ExportBounds,
): ExportSnapshot {
  const running: AccountId[] = [];

  function enter(accountId: AccountId): void {
    const own = running.filter((other) => other === accountId).length;
    if (running.length >= bounds.atOnceMax || own >= bounds.perOwnerMax) {
      throw new ApiError('overloaded', {
        message: 'Too many exports are running. Try again when one has ended.',
      });
    }
    running.push(accountId);
  }

  /** `begins`: what has to hold of the server before anything is read. */
  async function exportFrom(
    sql: Database,
    { accountId, pieces }: { readonly accountId: AccountId; readonly pieces: Pieces },
    begins: (tx: Transaction) => Promise<void>,
  ): Promise<Readable> {
    enter(accountId);
    const output = new PassThrough();
    const end = (reason: string) => output.destroy(new Error(reason));
    const lastMoment = setTimeout(end, bounds.exportMsMax, `it took longer than ${bounds.exportMsMax} ms`);
    sql
      .begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', async (tx) => {
        await begins(tx);
        const pulse = setInterval(
          () => tx`SELECT 1`.catch(() => end('its connection is lost')),
          storageLimits.exportPulseMs,
        );
        const taken = untilStalled(pieces(tx), end, bounds.exportStallMsMax);
        await pipeline(taken, output, { end: false }).finally(() => clearInterval(pulse));
      })
      .finally(() => {
        clearTimeout(lastMoment);
        running.splice(running.indexOf(accountId), 1);
      })
      .then(
        // Only now, so that a reader at the end has a slot for its next export.
        () => output.end(),
        (error: unknown) => {
          if (!(error instanceof ReplicaPassedOver))
            deps.logger.warn({ err: error, account_id: accountId }, 'an export ended early');
          output.destroy(error instanceof Error ? error : new Error('the export failed'));
        },
      );
    await once(output, 'readable');
    return output;
  }

  return async (accountId, pieces) => {
    const asked = { accountId, pieces };
    const replica = replicaOf(deps.sql);
    const here = () => exportFrom(deps.sql, asked, async () => undefined);
    if (replica === null) return here();
    const check = (tx: Transaction) => replica.check(tx, { owner: accountId, from: 0 });
    return atReplicaOr(replica, () => exportFrom(replica.pool, asked, check), here);
  };
}

/** Ends an export whose reader takes nothing more: it would hold its snapshot and its connection for ever. */
async function* untilStalled(
  pieces: AsyncIterable<Buffer>,
  end: (reason: string) => void,
  stallMsMax: number,
): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    const timer = setTimeout(end, stallMsMax, `its client read nothing for ${stallMsMax} ms`);
    try {
      yield piece;
    } finally {
      clearTimeout(timer);
    }
  }
}
