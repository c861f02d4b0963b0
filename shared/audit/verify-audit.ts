import { type BrokenAnswer, describeBroken } from '../attestation/broken-chains.ts';
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
  not_a_line:
    'this is not a line of UTF-8 text that ends in a newline, or it is longer than any in an export',
  not_canonical: 'this line is not in the canonical form that the service writes: it was changed',
  manifest_key_unknown:
    'the manifest names a key that is not an attestation key of the JWKS (fetch the JWKS again)',
  chain_start: 'this chain does not start where its export should start',
  after_end: 'nothing may follow the end line',
  no_end: 'the export is incomplete: it has no end line',
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

export type AuditVerdict =
  | ({ readonly kind: 'valid'; readonly chains: 1; readonly records: number } & Counts)
  | InvalidAudit;

/** What an export of attestations counts, too. */
interface Counts {
  /** Entries signed by a key that the JWKS marks compromised; a thief of the key could have written them. */
  readonly compromised: number;
  readonly archived: 0;
  readonly compromised_statements: 0;
  readonly removed_approvals: 0;
  readonly facts_opened: 0;
  readonly facts_withheld: 0;
}

interface InvalidAudit {
  readonly kind: 'invalid';
  readonly fault: AuditFault;
  readonly sentence: string;
  /** From 1. */
  readonly line: number;
  /** The account and the expected sequence number; null outside of the chain. */
  readonly chainId: string | null;
  readonly sequence: number | null;
  /** The chain, if the service reports it as broken; the rest of the file verifies. */
  readonly broken: readonly BrokenAnswer[];
  readonly brokenUnnamed: 0;
}

/**
 * Verifies an export of the audit line by line, in constant memory: spelling, hashes, links, sequence
 * numbers, signatures, keys, what the manifest and the end announce (docs/audit.md). Never throws, whatever
 * the lines say.
 *
 *     manifest ──> entries ──last one──> end ──> ended
 */
export class AuditVerifier {
  readonly #keys: Keyset;
  #manifest: AuditManifest | null = null;
  #head: AuditHead = emptyAuditChain;
  #isEnded = false;
  #broken: readonly BrokenAnswer[] = [];
  #failure: InvalidAudit | null = null;
  #lines = 0;
  #records = 0;
  #compromised = 0;

  constructor(keys: Keyset) {
    this.#keys = keys;
  }

  get records(): number {
    return this.#records;
  }

  /** One line without its newline; null: it is not text. After a fault it keeps answering that fault. */
  take(line: string | null): InvalidAudit | null {
    if (this.#failure !== null) return this.#failure;
    this.#lines += 1;
    const fault = this.#read(line);
    return fault === null ? null : this.#fail(fault);
  }

  /** After the last line. */
  finish(): AuditVerdict {
    if (this.#failure !== null) return this.#failure;
    if (!this.#isEnded) return this.#fail('no_end');
    return {
      ...{ kind: 'valid', chains: 1, records: this.#records, compromised: this.#compromised },
      ...{ archived: 0, compromised_statements: 0, removed_approvals: 0, facts_opened: 0, facts_withheld: 0 },
    };
  }

  #fail(fault: AuditFault): InvalidAudit {
    const [first] = this.#broken;
    const place = first === undefined ? this.#place() : { chainId: first.chain_id, sequence: first.sequence };
    const sentence = first === undefined ? sentences[fault] : `${sentences[fault]}: ${describeBroken(first)}`;
    this.#failure = {
      ...{ kind: 'invalid', fault, sentence, line: this.#lines, ...place },
      ...{ broken: this.#broken, brokenUnnamed: 0 },
    };
    return this.#failure;
  }

  #place(): Pick<InvalidAudit, 'chainId' | 'sequence'> {
    const manifest = this.#manifest;
    const isInside = manifest !== null && this.#isInside(manifest);
    return isInside
      ? { chainId: manifest.accountId, sequence: this.#head.sequence + 1 }
      : { chainId: null, sequence: null };
  }

  #read(line: string | null): AuditFault | null {
    if (this.#isEnded) return 'after_end';
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

  #readManifest(line: string, value: unknown): AuditFault | null {
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

  #readEntry(line: string, value: unknown, of: AuditManifest): AuditFault | null {
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
    this.#records += 1;
    if (key.compromised) this.#compromised += 1;
    return null;
  }

  #readEnd(line: string, value: unknown, manifest: AuditManifest): AuditFault | null {
    const end = parseAuditEnd(value);
    if (end === null) return 'no_end_here';
    if (auditEndLine(end) !== `${line}\n`) return 'not_canonical';
    if (end.entries !== this.#records) return 'wrong_counts';
    const [first] = end.broken;
    if (first === undefined && this.#isInside(manifest)) return 'stops_early';
    this.#isEnded = true;
    this.#broken = end.broken;
    return first === undefined ? null : 'broken';
  }
}

/** Undefined, which no JSON is, for what is none. */
function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
