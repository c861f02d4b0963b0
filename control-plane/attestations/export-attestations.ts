import type { Readable } from 'node:stream';
import { type ExportFormat, exportFormats } from '../../shared/attestation/export-formats.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { readGenerations } from '../history/history-store.ts';
import { readExportKeys } from '../signing/signing-key-store.ts';
import type { ExportSnapshot } from '../storage/snapshot-export.ts';
import type { RecordMonth } from './archive-store.ts';
import { walkChains } from './chain-walk.ts';
import { attestationsLimits } from './limits.ts';
import { type ExportNames, readSlice, sliceArchive, sliceExport } from './read-export.ts';
import { textBuffer } from './text-buffer.ts';

export interface ExportAsked {
  readonly owner: Owner;
  readonly format: ExportFormat;
  /** Each chain starts at its first record not older; null: at its first. */
  readonly sinceMs: UnixMillis | null;
  readonly nowMs: UnixMillis;
  /** Only what arrived before this month and is in no archive yet. Default: everything that is not. */
  readonly before?: RecordMonth;
}

/** Streams the chains of an owner (contract §9), reading from PostgreSQL no faster than the client. */
export type ExportAttestations = (asked: ExportAsked) => Promise<Readable>;

/** Memory holds one slice, and the unsent rest of the one before. */
export const attestationExporter =
  (exportSnapshot: ExportSnapshot): ExportAttestations =>
  (asked) =>
    exportSnapshot(asked.owner.accountId, (tx) => exportedBytes(tx, asked));

/** A record has about 950 bytes as JSON. */
const sliceBytesUsual = attestationsLimits.exportSliceRowsMax * 1_200;

/** One chunk per slice. Each record is encoded as it arrives. */
async function* exportedBytes(tx: Transaction, asked: ExportAsked): AsyncGenerator<Buffer> {
  const writer = exportFormats[asked.format].writer();
  const { sinceMs, nowMs, before } = asked;
  // Before the snapshot is taken: a partition of which its chains speak stays until the export is over.
  await tx`LOCK TABLE records IN ACCESS SHARE MODE`;
  const { current: generation } = await readGenerations(tx);
  yield Buffer.from(writer.manifest({ sinceMs, generation, ...(await readExportKeys(tx, nowMs)) }));
  const names: ExportNames = new Map();
  let text = textBuffer(sliceBytesUsual);
  const walk = walkChains((attestation, begins) => {
    if (begins !== null) text.add(writer.chain(begins));
    if (attestation !== null) text.add(writer.record(attestation));
  });
  const slices =
    before === undefined
      ? sliceExport(tx, asked.owner, sinceMs, walk)
      : sliceArchive(tx, asked.owner, before, walk);
  for await (const slice of slices) {
    await readSlice(tx, slice, names, walk);
    const taken = text.take();
    text = textBuffer(sliceBytesUsual);
    if (taken.length > 0) yield taken;
  }
  yield Buffer.from(writer.end(walk.end()));
}
