import type { Readable } from 'node:stream';
import { type ExportFormat, exportFormats } from '../../shared/attestation/export-formats.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SignedPolicy } from '../../shared/wire/policy.ts';
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

/** Each may have 64 KiB. */
const policiesPerPage = 20;

/** In the order of the hashes. One that is gone is left out, and the verifier misses it. */
async function* readPolicies(
  tx: Transaction,
  hashes: readonly string[],
): AsyncGenerator<readonly SignedPolicy[]> {
  for (let from = 0; from < hashes.length; from += policiesPerPage) {
    const rows = await tx<(Omit<SignedPolicy, 'body'> & { readonly body: string })[]>`
      SELECT policy_hash, body, signature, signing_key_id FROM policies
      WHERE policy_hash = ANY(${hashes.slice(from, from + policiesPerPage)}::text[])
      ORDER BY policy_hash COLLATE "C"`;
    if (rows.length > 0) yield rows.map((row) => ({ ...row, body: JSON.parse(row.body) }));
  }
}

/** One chunk per slice. Each record is encoded as it arrives. */
async function* exportedBytes(tx: Transaction, asked: ExportAsked): AsyncGenerator<Buffer> {
  const writer = exportFormats[asked.format].writer();
  const { sinceMs, nowMs, before } = asked;
  // Before the snapshot is taken: a partition of which its chains speak stays until the export is over.
  await tx`LOCK TABLE records IN ACCESS SHARE MODE`;
  const { current: generation } = await readGenerations(tx);
  yield Buffer.from(writer.manifest({ form: 2, sinceMs, generation, ...(await readExportKeys(tx, nowMs)) }));
  const names: ExportNames = new Map();
  let text = textBuffer(sliceBytesUsual);
  const policies = new Set<string>();
  const walk = walkChains((attestation, begins) => {
    if (begins !== null) text.add(writer.chain(begins));
    if (attestation === null) return;
    text.add(writer.record(attestation));
    if (attestation.policyHash !== null) policies.add(attestation.policyHash);
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
  for await (const page of readPolicies(tx, [...policies].sort()))
    yield Buffer.from(page.map((policy) => writer.policy(policy)).join(''));
  yield Buffer.from(writer.end(walk.end()));
}
