import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import type { AttestationBatch, SettlementVoid, SpooledRecord, VoidRun } from '../../shared/wire/sync.ts';
import { BatchBuilder } from '../../sidecar/attest/batch.ts';
import { EpochReader } from '../../sidecar/attest/epoch-reader.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import { openSpool, type RecordOwner, type Spool, type SpoolOptions } from '../../sidecar/attest/spool.ts';
import { sampleId } from './sample-chains.ts';

/** Spools and what can be read of them, for tests of the spool and of the shipper. */
export const random = systemRandom();

export interface TemporaryFolder {
  readonly path: string;
  remove(): void;
}

export function temporarySpoolFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), 'agent-trust-spool-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** The disk as `kill -9` would leave it at this moment. */
export function copyOfDisk(folder: TemporaryFolder): TemporaryFolder {
  const copy = temporarySpoolFolder();
  const isSocket = (path: string) => path.endsWith('.sock');
  cpSync(folder.path, copy.path, { recursive: true, filter: (path) => !isSocket(path) });
  return copy;
}

export const openTestSpool = (directory: string, options: Partial<SpoolOptions> = {}): Promise<Spool> =>
  openSpool({ directory, fsyncMs: 20, clock: systemClock, random, logger: silentLogger, ...options });

/** Appends the records in one event-loop turn. Resolves to the outcome of each, when all are settled. */
export async function appendTurn(
  spool: Spool,
  records: readonly SpooledRecord[],
): Promise<('written' | 'failed')[]> {
  const outcomes = records.map(
    (record) =>
      new Promise<'written' | 'failed'>((resolve) => {
        spool.append(record, ownerOf(resolve));
      }),
  );
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

const batchOf = (batch: BatchBuilder): AttestationBatch =>
  parseBody(batch.body({ sidecarId: sampleId('side', 1), connectionId: 'connection' }));

export const parseBody = (body: Uint8Array): AttestationBatch =>
  JSON.parse(Buffer.from(body).toString('utf8'));

export const isVoid = (item: SpooledRecord | SettlementVoid | VoidRun): item is VoidRun => 'void' in item;
