import type { Readable } from 'node:stream';
import type { BrokenChain } from '../../shared/attestation/broken-chains.ts';
import type { ExportChain } from '../../shared/attestation/export.ts';
import { type ExportFormat, exportFormats } from '../../shared/attestation/export-formats.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { ReadLoggedHeads } from '../audit/export-audit.ts';
import type { Transaction } from '../base/database.ts';
import { readGenerations } from '../history/history-store.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { readExportKeys } from '../signing/signing-key-store.ts';
import type { SigningKey, SigningKeys } from '../signing/signing-keys.ts';
import type { ExportSnapshot } from '../storage/snapshot-export.ts';
import type { RecordMonth } from './archive-store.ts';
import { walkChains } from './chain-walk.ts';
import { envelopeSigner, signedEnvelopes } from './envelope-signer.ts';
import { factOwner, renderFacts } from './facts-store.ts';
import { attestationsLimits } from './limits.ts';
import { ExportAttachments } from './read-attachments.ts';
import { type ExportFacts, type ExportNames, readSlice, sliceArchive, sliceExport } from './read-export.ts';
import { textBuffer } from './text-buffer.ts';

export interface ExportAsked {
  readonly owner: Owner;
  readonly format: ExportFormat;
  /** Each chain starts at its first record not older; null: at its first. */
  readonly sinceMs: UnixMillis | null;
  /** Passports and approvals are stated as they were then; null or absent: as they are. */
  readonly asOfMs?: UnixMillis | null;
  /** What opens the commitments of records, too. Default: not. */
  readonly withFacts?: boolean;
  readonly nowMs: UnixMillis;
  /** Only what arrived before this month and is in no archive yet. Default: everything that is not. */
  readonly before?: RecordMonth;
}

/** Streams the chains of an owner (contract §9), reading from PostgreSQL no faster than the client. */
export type ExportAttestations = (asked: ExportAsked) => Promise<Readable>;

/** A chain, and where it begins and ends in the export. */
export type ExportedRange = Pick<ExportChain, 'chainId' | 'firstSequence' | 'lastSequence'>;

/** The transparency log, as exports are held against it: within their snapshot. */
export interface ExportedLog {
  readonly proveChains: ProveChains;
  /**
   * Reports the owner's chains that the log has further than the database, and those whose head rows are gone
   * or name another owner.
   */
  noteLosses(tx: Transaction, owner: Owner, note: (broken: BrokenChain) => void): Promise<void>;
  readonly readHeads: ReadLoggedHeads;
}

/** Proofs that the log has a record of these chains, by chain; those that it has nothing of are left out. */
export type ProveChains = (
  tx: Transaction,
  chains: readonly ExportedRange[],
) => Promise<ReadonlyMap<string, string>>;

/** Memory holds one slice, the unsent rest of the one before, and what `ExportedNames` says. */
export const attestationExporter =
  (
    { signingKeys }: Pick<SigningDeps, 'signingKeys'>,
    exportSnapshot: ExportSnapshot,
    log: ExportedLog,
  ): ExportAttestations =>
  (asked) => {
    const key = signingKeys.current('attestation');
    return exportSnapshot(asked.owner.accountId, (tx) => exportedBytes(tx, asked, { signingKeys, key, log }));
  };

/** A record has about 950 bytes as JSON. */
const sliceBytesUsual = attestationsLimits.exportSliceRowsMax * 1_200;

interface ExportMeans {
  readonly signingKeys: SigningKeys;
  /** Signs what the export says of its own. */
  readonly key: SigningKey;
  readonly log: ExportedLog;
}

/** One chunk per slice. Each record is encoded as it arrives. */
async function* exportedBytes(
  tx: Transaction,
  asked: ExportAsked,
  { signingKeys, key, log }: ExportMeans,
): AsyncGenerator<Buffer> {
  const { isEvidence, writer: writerOf } = exportFormats[asked.format];
  const signer = envelopeSigner(signingKeys, key);
  const writer = writerOf(signer);
  const { sinceMs, nowMs, before, asOfMs = null, withFacts = false } = asked;
  // Before the snapshot is taken: a partition of which its chains speak stays until the export is over.
  await tx`LOCK TABLE records IN ACCESS SHARE MODE`;
  const { current: generation } = await readGenerations(tx);
  const { keyIds, createdAtMs } = await readExportKeys(tx, nowMs);
  // A replica of the database may not have it yet.
  const listed = keyIds.includes(key.kid) ? keyIds : [...keyIds, key.kid];
  yield Buffer.from(writer.manifest({ form: 2, sinceMs, generation, keyIds: listed, createdAtMs }));
  const names: ExportNames = new Map();
  const reader = withFacts ? await factOwner(tx, asked.owner) : null;
  const facts: ExportFacts | null = reader === null ? null : { owner: reader, byId: new Map() };
  let text = textBuffer(sliceBytesUsual);
  const attachments = isEvidence
    ? new ExportAttachments(tx, asked.owner, { key, asOfMs, withForms: withFacts })
    : null;
  let proofs: ReadonlyMap<string, string> = new Map();
  const walk = walkChains((attestation, begins) => {
    if (begins !== null) text.add(writer.chain({ ...begins, logProof: proofs.get(begins.chainId) ?? null }));
    if (attestation === null) return;
    text.add(writer.record(attestation));
    const kept = facts?.byId.get(attestation.id);
    if (kept !== undefined) text.add(writer.facts(renderFacts(attestation.id, kept)));
    attachments?.name(attestation);
  });
  if (before === undefined) await log.noteLosses(tx, asked.owner, (broken) => walk.note(broken));
  const slices =
    before === undefined
      ? sliceExport(tx, asked.owner, sinceMs, walk)
      : sliceArchive(tx, asked.owner, before, walk);
  for await (const slice of slices) {
    const begins = slice.flatMap(({ chain, first }) => (first === chain.firstSequence ? [chain] : []));
    if (isEvidence) proofs = await log.proveChains(tx, begins);
    walk.logged = await log.readHeads(
      tx,
      slice.map(({ chain, first, last }) => ({ ...chain, firstSequence: first, lastSequence: last })),
    );
    await readSlice(tx, slice, { names, facts }, walk);
    if (writer.signing !== undefined)
      for await (const envelopes of signedEnvelopes(writer.signing, signer)) text.add(envelopes);
    const taken = text.take();
    text = textBuffer(sliceBytesUsual);
    if (taken.length > 0) yield taken;
  }
  for await (const page of attachments?.pages() ?? [])
    if (page.length > 0) yield Buffer.from(page.map((each) => writer.attachment(each)).join(''));
  yield Buffer.from(writer.end(walk.end()));
}
