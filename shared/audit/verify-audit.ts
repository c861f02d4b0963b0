import {
  brokenFinding,
  commonFaults,
  ExportVerifier,
  type Finding,
  type LineReader,
  parseJson,
} from '../attestation/verify-lines.ts';
import type { Keyset } from '../crypto/keyset.ts';
import { limits } from '../model/limits.ts';
import { type AuditHead, type EntryFault, emptyAuditChain, entryFaults, verifyAuditEntry } from './entry.ts';
import {
  type AuditManifest,
  auditEndLine,
  auditEntryLine,
  auditManifestLine,
  parseAuditEnd,
  parseAuditManifest,
} from './export.ts';

/** Faults of an export beyond its single entries, with their texts. */
const lineFaults = {
  ...commonFaults,
  no_manifest: 'the first line is not a manifest of a known format',
  wrong_chain: 'this entry belongs to another account or mode',
  key_not_listed: 'this entry names a signing key that the manifest does not',
  key_not_yet_valid: 'this entry names a signing key that came into force after the export was made',
  wrong_last_hash: 'this is the last entry, but not the one that the manifest names',
  stops_early:
    'the chain stops before the last entry that the manifest names, and the end line does not say why',
  broken: 'the service itself found that the chain is not whole in its database',
  wrong_counts: 'the number of entries differs from the one in the end line',
  no_end_here: 'the end line is expected here',
} as const;

const sentences = { ...entryFaults, ...lineFaults };

type AuditFault = EntryFault | keyof typeof lineFaults;

/**
 * Verifies an export of the audit: spelling, hashes, links, sequence numbers, signatures, keys, what the
 * manifest and the end announce (docs/audit.md).
 */
export const auditVerifier = (keys: Keyset): ExportVerifier =>
  new ExportVerifier(new AuditReader(keys), sentences);

type Found = AuditFault | Finding<AuditFault> | null;

/**
 *     manifest ──> entries ──last one──> end ──> ended
 */
class AuditReader implements LineReader {
  readonly #keys: Keyset;
  #manifest: AuditManifest | null = null;
  #head: AuditHead = emptyAuditChain;
  isEnded = false;
  readonly count = { chains: 1, records: 0, compromised: 0, archived: 0 };

  constructor(keys: Keyset) {
    this.#keys = keys;
  }

  get place(): { readonly chainId: string | null; readonly sequence: number | null } {
    const manifest = this.#manifest;
    const isInside = manifest !== null && this.#isInside(manifest);
    return isInside
      ? { chainId: manifest.accountId, sequence: this.#head.sequence + 1 }
      : { chainId: null, sequence: null };
  }

  read(line: string | null): Found {
    if (this.isEnded) return 'after_end';
    if (line === null) return 'not_a_line';
    const value = parseJson(line);
    const manifest = this.#manifest;
    if (manifest === null) return this.#readManifest(line, value);
    const isEnd = !this.#isInside(manifest) || parseAuditEnd(value) !== null;
    return isEnd ? this.#readEnd(line, value, manifest) : this.#readEntry(line, value, manifest);
  }

  #isInside({ lastSequence }: AuditManifest): boolean {
    return this.#head.sequence < lastSequence;
  }

  #readManifest(line: string, value: unknown): Found {
    const found = parseAuditManifest(value);
    if (found === null) return 'no_manifest';
    if (auditManifestLine(found) !== `${line}\n`) return 'not_canonical';
    if (found.firstSequence !== 1 && found.sinceMs === null) return 'chain_start';
    const isKnown = (kid: string) => this.#keys.find('attestation', kid) !== null;
    if (!found.keyIds.every(isKnown)) return 'manifest_key_unknown';
    this.#manifest = found;
    this.#head = { sequence: found.firstSequence - 1, hash: found.previousHash };
    return null;
  }

  #readEntry(line: string, value: unknown, of: AuditManifest): Found {
    const verdict = verifyAuditEntry(value, this.#head, this.#keys);
    if (verdict.kind === 'invalid') return verdict.fault;
    const { entry, key } = verdict;
    if (auditEntryLine(entry) !== `${line}\n`) return 'not_canonical';
    if (entry.accountId !== of.accountId || entry.mode !== of.mode) return 'wrong_chain';
    if (!of.keyIds.includes(key.kid)) return 'key_not_listed';
    if (key.notBeforeMs > of.createdAtMs + limits.notBeforeLeewayMs) return 'key_not_yet_valid';
    const isFirst = entry.sequence === of.firstSequence;
    if (isFirst && of.sinceMs !== null && entry.createdAtMs < of.sinceMs) return 'chain_start';
    if (entry.sequence === of.lastSequence && entry.hash !== of.lastHash) return 'wrong_last_hash';
    this.#head = { sequence: entry.sequence, hash: entry.hash };
    this.count.records++;
    if (key.compromised) this.count.compromised++;
    return null;
  }

  #readEnd(line: string, value: unknown, manifest: AuditManifest): Found {
    const end = parseAuditEnd(value);
    if (end === null) return 'no_end_here';
    if (auditEndLine(end) !== `${line}\n`) return 'not_canonical';
    if (end.entries !== this.count.records) return 'wrong_counts';
    const [first] = end.broken;
    if (first === undefined && this.#isInside(manifest)) return 'stops_early';
    this.isEnded = true;
    return first === undefined ? null : brokenFinding(first, sentences.broken, { broken: end.broken });
  }
}
