import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { BrokenAnswer } from '../attestation/broken-chains.ts';
import { brokenMembers, Generation } from '../attestation/export.ts';
import { canonicalJson } from '../crypto/canonical-json.ts';
import type { AuditEntry } from '../model/audit.ts';
import { type AccountId, isId } from '../model/ids.ts';
import { type Mode, modes } from '../model/mode.ts';
import { renderOptionalTime, renderTime, type UnixMillis } from '../model/time.ts';
import { closed, nullable } from '../wire/api/fields.ts';
import { parseExactTime } from '../wire/evidence/attestation.ts';
import { renderAuditEntry } from '../wire/evidence/audit.ts';

/**
 * The lines of `GET /audit/export`: a manifest, the entries of one chain in order, the end. Each line is RFC
 * 8785 JSON and ends in one newline, so that there is one spelling of an export and every changed byte shows.
 *
 * format history
 *   agent-trust.audit.v1  2026-11
 *     2026-11-26  `end` has `broken` where the chain is not whole in the database; without, it is as before
 *     2026-11-27  `manifest` has `generation`; those written before lack it, and verify as they are
 */
const auditFormat = 'agent-trust.audit.v1';

export interface AuditManifest {
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly createdAtMs: UnixMillis;
  /** The export starts at the first entry that is not older than this; null: at the first entry. */
  readonly sinceMs: UnixMillis | null;
  /** As in `ExportManifest`. */
  readonly generation: string | null;
  /** Every attestation key that may have signed an entry of the export. */
  readonly keyIds: readonly string[];
  /** One more than `lastSequence` for an export without entries. */
  readonly firstSequence: number;
  /** Predecessor of the first entry; null for sequence 1. */
  readonly previousHash: string | null;
  /** Last sequence of the chain at the export; 0 for an empty chain. */
  readonly lastSequence: number;
  readonly lastHash: string | null;
}

const line = (value: object): string => `${canonicalJson(value)}\n`;

export const auditManifestLine = (manifest: AuditManifest): string =>
  line({
    manifest: {
      account_id: manifest.accountId,
      created_at: renderTime(manifest.createdAtMs),
      first_sequence: manifest.firstSequence,
      format: auditFormat,
      ...(manifest.generation !== null && { generation: manifest.generation }),
      key_ids: manifest.keyIds,
      last_hash: manifest.lastHash,
      last_sequence: manifest.lastSequence,
      mode: manifest.mode,
      previous_hash: manifest.previousHash,
      since: renderOptionalTime(manifest.sinceMs),
    },
  });

export const auditEntryLine = (entry: AuditEntry): string => line(renderAuditEntry(entry));

export interface AuditEnd {
  readonly entries: number;
  /** The chain, if it is not whole in the database. */
  readonly broken: readonly BrokenAnswer[];
}

export const auditEndLine = ({ entries, broken }: AuditEnd): string =>
  line({ end: broken.length === 0 ? { entries } : { broken, entries } });

/** Whether this is the first line of an audit export. */
export const isAuditStart = (text: string): boolean => text.startsWith('{"manifest":{"account_id":');

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

const manifestShape = Compile(
  closed({
    manifest: closed({
      account_id: Type.String(),
      created_at: Type.String(),
      first_sequence: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
      format: Type.Literal(auditFormat),
      generation: Generation,
      key_ids: Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' })),
      last_hash: nullable(Hash),
      last_sequence: Count,
      mode: Type.Enum(modes),
      previous_hash: nullable(Hash),
      since: nullable(Type.String()),
    }),
  }),
);
const endShape = Compile(closed({ end: closed({ broken: brokenMembers.broken, entries: Count }) }));

/** Reads the parsed JSON of a first line; null for anything else and for a contradiction. */
export function parseAuditManifest(value: unknown): AuditManifest | null {
  if (!manifestShape.Check(value)) return null;
  const { manifest } = value;
  const createdAtMs = parseExactTime(manifest.created_at);
  const sinceMs = manifest.since === null ? null : parseExactTime(manifest.since);
  if (createdAtMs === null || (manifest.since !== null && sinceMs === null)) return null;
  const { account_id, first_sequence, last_sequence, previous_hash, last_hash } = manifest;
  if (!isId('acct', account_id)) return null;
  if ((first_sequence === 1) !== (previous_hash === null)) return null;
  if ((last_sequence === 0) !== (last_hash === null) || first_sequence > last_sequence + 1) return null;
  if (first_sequence === last_sequence + 1 && previous_hash !== last_hash) return null;
  return {
    accountId: account_id,
    mode: manifest.mode,
    createdAtMs,
    sinceMs,
    generation: manifest.generation ?? null,
    keyIds: manifest.key_ids,
    firstSequence: first_sequence,
    previousHash: previous_hash,
    lastSequence: last_sequence,
    lastHash: last_hash,
  };
}

/** Null for anything but an end line. */
export const parseAuditEnd = (value: unknown): AuditEnd | null =>
  endShape.Check(value) ? { entries: value.end.entries, broken: value.end.broken ?? [] } : null;
