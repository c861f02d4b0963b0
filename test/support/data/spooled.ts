import { cpSync } from 'node:fs';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { isRecordRow, wholeRecord } from '../../../shared/wire/sync/spooled-record.ts';
import type {
  AttestationBatch,
  SettlementVoid,
  SharedParts,
  SpooledRecord,
  VoidRun,
} from '../../../shared/wire/sync/sync.ts';
import { BatchBuilder } from '../../../sidecar/attest/batch.ts';
import { EpochReader } from '../../../sidecar/attest/epoch-reader.ts';
import { attestLimits } from '../../../sidecar/attest/limits.ts';
import { openSpool, type RecordOwner, type Spool, type SpoolOptions } from '../../../sidecar/attest/spool.ts';
import { type TemporaryFolder, temporaryFolder } from '../base/temporary-folder.ts';
import { sampleId } from './sample-chains.ts';
import { inParts, sharedParts } from './spooled-record.ts';

/** Spools and what can be read of them, for tests of the spool and of the shipper. */
export const random = systemRandom();

/** The disk as `kill -9` would leave it at this moment. */
export function copyOfDisk(folder: TemporaryFolder): TemporaryFolder {
  const copy = temporaryFolder();
  const isSocket = (path: string) => path.endsWith('.sock');
  cpSync(folder.path, copy.path, { recursive: true, filter: (path) => !isSocket(path) });
  return copy;
}

export const openTestSpool = (directory: string, options: Partial<SpoolOptions> = {}): Promise<Spool> =>
  openSpool({ directory, fsyncMs: 20, clock: systemClock, random, logger: silentLogger, ...options });

/** Appends the records in one event-loop turn. Resolves to the outcome of each, when all are settled. */
export const appendTurn = (
  spool: Spool,
  records: readonly SpooledRecord[],
): Promise<('written' | 'failed')[]> =>
  settledTurn((owner) => {
    for (const record of records) spool.append(inParts(record), owner());
  });

/** Appends many records as a busy sidecar does: short ones, in several turns. */
export async function appendBacklog(spool: Spool, records: readonly SpooledRecord[]): Promise<void> {
  const parts = sharedParts();
  for (let from = 0; from < records.length; from += 1_000) {
    await settledTurn((owner) => {
      for (const record of records.slice(from, from + 1_000)) spool.append(parts(record), owner());
    });
  }
}

/**
 * What `append` appends belongs to the owners that it asks for, in one event-loop turn. Resolves to the
 * outcome of each, when all are settled.
 */
export function settledTurn(append: (owner: () => RecordOwner) => void): Promise<('written' | 'failed')[]> {
  const outcomes: Promise<'written' | 'failed'>[] = [];
  append(() => {
    let settle: Parameters<typeof ownerOf>[0] = () => undefined;
    outcomes.push(
      new Promise((resolve) => {
        settle = resolve;
      }),
    );
    return ownerOf(settle);
  });
  return Promise.all(outcomes);
}

/** Throws when it is told twice. */
export function ownerOf(settle: (outcome: 'written' | 'failed') => void): RecordOwner {
  let isFinal = false;
  const tell = (outcome: 'written' | 'failed') => () => {
    if (isFinal) throw new Error('an owner is told once');
    isFinal = true;
    settle(outcome);
  };
  return { onWritten: tell('written'), onFailed: tell('failed') };
}

export interface EpochContent {
  readonly firstSeq: number;
  readonly items: readonly (SpooledRecord | SettlementVoid | VoidRun)[];
  readonly damagedPlaces: number;
}

/** Everything that a shipper would send of the epochs of earlier starts, epoch by epoch, oldest first. */
export async function readOlderEpochs(directory: string): Promise<EpochContent[]> {
  const spool = await openTestSpool(directory);
  const contents: EpochContent[] = [];
  const window = Buffer.alloc(attestLimits.spoolReadBytes);
  const options = { files: spool.files, directory, logger: silentLogger };
  for (const epoch of spool.epochs.filter(({ isLive }) => !isLive)) {
    const reader = new EpochReader(epoch, window, options);
    const batch = new BatchBuilder();
    const items: (SpooledRecord | SettlementVoid | VoidRun)[] = [];
    const firstSeq = reader.position.seq;
    for (;;) {
      reader.position = await reader.fill(batch, new Set());
      if (batch.isEmpty) break;
      items.push(...batchOf(batch).records);
    }
    contents.push({ firstSeq, items, damagedPlaces: reader.damagedPlaces });
  }
  await spool.close();
  return contents;
}

const batchOf = (batch: BatchBuilder): WholeBatch =>
  parseBody(batch.body({ sidecarId: sampleId('side', 1), connectionId: 'connection' }));

/** A batch with each of its records as a whole. */
export type WholeBatch = Omit<AttestationBatch, 'records'> & {
  readonly records: readonly (SpooledRecord | SettlementVoid | VoidRun)[];
};

export function parseBody(body: Uint8Array): WholeBatch {
  const batch: AttestationBatch = JSON.parse(Buffer.from(body).toString('utf8'));
  let shared: SharedParts = { chains: [], outcomes: [] };
  const records = batch.records.flatMap((item): WholeBatch['records'] => {
    if (!isRecordRow(item) && 'chains' in item) {
      shared = item;
      return [];
    }
    if (!isRecordRow(item) && 'outcome' in item) return [];
    return [isRecordRow(item) ? wholeRecord(item, shared) : item];
  });
  return { ...batch, records };
}

export const isVoid = (item: SpooledRecord | SettlementVoid | VoidRun): item is VoidRun => 'void' in item;
