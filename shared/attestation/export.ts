import { Type } from 'typebox';
import { canonicalJson } from '../crypto/canonical-json.ts';
import { assert } from '../errors/assert.ts';
import type { Attestation, ChainId, RecordForm } from '../model/attestation.ts';
import { renderOptionalTime, renderTime, type UnixMillis } from '../model/time.ts';
import { closed, FreeForm, nullable } from '../wire/api/fields.ts';
import { AttestationAnswer, renderAttestation } from '../wire/evidence/attestation.ts';
import { FactsAnswer } from '../wire/evidence/fact.ts';
import type { Attachment } from './attachments.ts';
import { BrokenAnswer, brokenNamedMax } from './broken-chains.ts';
import type { EnvelopeSignature, UnsignedRecord } from './envelope.ts';

/**
 * The lines of `GET /attestations/export` as jsonl (contract §9): a manifest, then each chain's header with
 * its records, then what records name, then the end. Chains are in ascending order of chain_id, records in
 * that of sequence. Each line is RFC 8785 JSON and ends in one newline, so that there is one
 * spelling of an export and every changed byte shows. The literals below keep their members in order.
 *
 * format history
 *   agent-trust.attestations.v1  2026-11
 *     2026-11-22  records have `refers_to` and `source_account`; those written before lack both, and verify
 *                 as they are
 *     2026-11-26  `end` has `broken` where a chain is not whole in the database; without, it is as before
 *     2026-11-27  `manifest` has `generation`; those written before lack it, and verify as they are
 *     2026-11-27  a chain whose first records are in an archive has `archived`, and may have no records here
 *   agent-trust.attestations.v2  2026-11-27
 *     records may be in form 2, beside others in form 1; the policies, catalogs, passports and approvals that
 *     they name stand after the chains
 *     the header of a chain may have `log_proof`
 *     with `facts=1` a record may be followed by what opens its commitments
 */
const formats = { 1: 'agent-trust.attestations.v1', 2: 'agent-trust.attestations.v2' } as const;

export interface ExportManifest {
  /** The newest form of its records. What is written now has 2. */
  readonly form: RecordForm;
  readonly createdAtMs: UnixMillis;
  /** Each chain starts at its first record that is not older than this; null: at its first record. */
  readonly sinceMs: UnixMillis | null;
  /** The history of its database (contract §17); null: it was made before these had names. */
  readonly generation: string | null;
  /** Every attestation key that may have signed a record of the export. */
  readonly keyIds: readonly string[];
}

export interface ExportChain {
  readonly chainId: ChainId;
  /** The last of the records that left the database for an archive; null: none did. */
  readonly archived: ArchivedHead | null;
  readonly firstSequence: number;
  /** Predecessor of the first record; null for sequence 1. */
  readonly previousAttestationHash: string | null;
  /** One less than `firstSequence` where all records are in archives. */
  readonly lastSequence: number;
  readonly lastHash: string;
  /** The tlog-proof of one of its records here (docs/log.md); null: the log has none yet. */
  readonly logProof: string | null;
}

export interface ArchivedHead {
  readonly throughSequence: number;
  readonly hash: string;
}

export interface ExportEnd {
  readonly chains: number;
  readonly records: number;
  /** Chains that are not whole in the database, the first `brokenNamedMax` of them. */
  readonly broken: readonly BrokenAnswer[];
  /** Number of further ones. */
  readonly brokenUnnamed: number;
}

/**
 * Renders one export in one format, in this order: the manifest, each chain with its records, the
 * attachments, the end. The returned pieces, concatenated, are the file. Keeps only its position.
 */
export interface ExportWriter {
  manifest(manifest: ExportManifest): string;
  chain(chain: ExportChain): string;
  record(attestation: Attestation): string;
  /** What opens commitments of the record before; formats with headers of chains alone have it. */
  facts(facts: FactsAnswer): string;
  /** Absent: records are written as they come. */
  readonly signing?: RecordSigning;
  /** After all chains, in the order of `Attachment`. */
  attachment(attachment: Attachment): string;
  end(end: ExportEnd): string;
}

/**
 * For a format whose records wait for signatures. Both are called after at most `exportSliceRowsMax` records,
 * and before anything that is no record.
 */
export interface RecordSigning {
  /** The next records, at most so many; none: all have been taken. */
  take(countMax: number): readonly UnsignedRecord[];
  /** What was taken, as it is written; the signatures in the same order. */
  write(signatures: readonly EnvelopeSignature[]): string;
}

const line = (value: object): string => `${JSON.stringify(value)}\n`;

export const manifestLine = (manifest: ExportManifest): string =>
  line({
    manifest: {
      created_at: renderTime(manifest.createdAtMs),
      format: formats[manifest.form],
      ...(manifest.generation !== null && { generation: manifest.generation }),
      key_ids: manifest.keyIds,
      since: renderOptionalTime(manifest.sinceMs),
    },
  });

export const chainLine = (chain: ExportChain): string =>
  line({
    chain: {
      ...(chain.archived === null ? {} : { archived: archivedInOrder(chain.archived) }),
      chain_id: chain.chainId,
      first_sequence: chain.firstSequence,
      last_hash: chain.lastHash,
      last_sequence: chain.lastSequence,
      ...(chain.logProof === null ? {} : { log_proof: chain.logProof }),
      previous_attestation_hash: chain.previousAttestationHash,
    },
  });

const archivedInOrder = ({ hash, throughSequence }: ArchivedHead) => ({
  hash,
  through_sequence: throughSequence,
});

export const recordLine = (attestation: Attestation): string => line(renderAttestation(attestation));

export const factsLine = (facts: FactsAnswer): string => `${canonicalJson(facts)}\n`;

export function endLine({ broken, brokenUnnamed, chains, records }: ExportEnd): string {
  assert(broken.length <= brokenNamedMax, 'an end names as many chains as its readers take');
  assert(
    brokenUnnamed === 0 || broken.length === brokenNamedMax,
    'a chain goes unnamed once the list of broken ones is full',
  );
  return line({
    end: {
      ...(broken.length === 0 ? {} : { broken: broken.map(inOrder) }),
      ...(brokenUnnamed === 0 ? {} : { broken_unnamed: brokenUnnamed }),
      chains,
      records,
    },
  });
}

/** A path of 63 hashes, and a checkpoint with many cosignatures. */
const logProofCharsMax = 65_536;

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });
const Sequence = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** Of exports alike: absent before 2026-11-27. */
export const Generation = Type.Optional(Type.String({ pattern: '^gen_[0-9a-f]{32}$' }));

const Manifest = closed({
  created_at: Type.String(),
  format: Type.Enum(Object.values(formats)),
  generation: Generation,
  key_ids: Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' })),
  since: nullable(Type.String()),
});

const chainMembers = {
  archived: Type.Optional(closed({ hash: Hash, through_sequence: Sequence })),
  chain_id: Type.String(),
  first_sequence: Sequence,
  last_hash: Hash,
  last_sequence: Sequence,
  log_proof: Type.Optional(Type.String({ maxLength: logProofCharsMax })),
  previous_attestation_hash: nullable(Hash),
};

/** Absent if every chain is whole, so that earlier versions verify an export without faults. */
export const brokenMembers = {
  broken: Type.Optional(Type.Array(BrokenAnswer, { minItems: 1, maxItems: brokenNamedMax })),
  broken_unnamed: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
};

const End = closed({ ...brokenMembers, chains: Count, records: Count });

const inOrder = ({ chain_id, fault, sequence }: BrokenAnswer): BrokenAnswer => ({
  chain_id,
  fault,
  sequence,
});

/** The export as one JSON value. */
export const ExportAnswer = closed({
  manifest: Manifest,
  chains: Type.Array(
    closed({ ...chainMembers, attestations: Type.Array(Type.Union([AttestationAnswer, FactsAnswer])) }),
  ),
  /** What records name, each an `Attachment`. Absent: they name nothing. */
  attachments: Type.Optional(Type.Array(FreeForm)),
  end: End,
});
