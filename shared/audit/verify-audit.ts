import { describeBroken } from '../attestation/broken-chains.ts';
import type { ExportVerdict, ExportVerifier } from '../attestation/verify-export.ts';
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
  no_manifest: 'the first line is not a manifest of a known format',
  manifest_key_unknown:
    'the manifest names a key that is not an attestation key of the JWKS (fetch the JWKS again)',
  chain_start: 'this chain does not start where its export should start',
  wrong_chain: 'this entry belongs to another account or mode',
  key_not_listed: 'this entry names a signing key that the manifest does not',
  key_not_yet_valid: 'this entry names a signing key that came into force after the export was made',
  wrong_last_hash: 'this is the last entry, but not the one that the manifest names',
  stops_early:
    'the chain stops before the last entry that the manifest names, and the end line does not say why',
  broken: 'the service itself found that the chain is not whole in its database',
  wrong_counts: 'the number of entries differs from the one in the end line',
  no_end_here: 'the end line is expected here',
  after_end: 'nothing may follow the end line',
  no_end: 'the export is incomplete: it has no end line',
} as const;

const sentences = { ...entryFaults, ...lineFaults };

type AuditFault = EntryFault | keyof typeof lineFaults;
type Invalid = Extract<ExportVerdict<AuditFault>, { kind: 'invalid' }>;

/**
 * Verifies an export of the audit line by line, in constant memory: spelling, hashes, links, sequence
 * numbers, signatures, keys, and the announcements of manifest and end (docs/audit.md). Never throws.
 *
 *   manifest ──> entries ──last one──> end ──> ended
 */
export function auditVerifier(keys: Keyset): ExportVerifier<AuditFault> {
  let manifest: AuditManifest | null = null;
  let head: AuditHead = emptyAuditChain;
  let isEnded = false;
  let failure: Invalid | null = null;
  const count = { lines: 0, entries: 0, compromised: 0 };

  function takeManifest(line: string, value: unknown): AuditFault | null {
    const found = parseAuditManifest(value);
    if (found === null) return 'no_manifest';
    if (auditManifestLine(found) !== `${line}\n`) return 'not_canonical';
    if (found.firstSequence !== 1 && found.sinceMs === null) return 'chain_start';
    if (found.keyIds.some((kid) => keys.find('attestation', kid) === null)) return 'manifest_key_unknown';
    manifest = found;
    head = { sequence: found.firstSequence - 1, hash: found.previousHash };
    return null;
  }

  function takeEntry(line: string, value: unknown, of: AuditManifest): AuditFault | null {
    const verdict = verifyAuditEntry(value, head, keys);
    if (verdict.kind === 'invalid') return verdict.fault;
    const { entry, key } = verdict;
    if (auditEntryLine(entry) !== `${line}\n`) return 'not_canonical';
    if (entry.accountId !== of.accountId || entry.mode !== of.mode) return 'wrong_chain';
    if (!of.keyIds.includes(key.kid)) return 'key_not_listed';
    if (key.notBeforeMs > of.createdAtMs + limits.notBeforeLeewayMs) return 'key_not_yet_valid';
    const isFirst = entry.sequence === of.firstSequence;
    if (isFirst && of.sinceMs !== null && entry.createdAtMs < of.sinceMs) return 'chain_start';
    if (entry.sequence === of.lastSequence && entry.hash !== of.lastHash) return 'wrong_last_hash';
    head = { sequence: entry.sequence, hash: entry.hash };
    count.entries++;
    if (key.compromised) count.compromised++;
    return null;
  }

  function takeEnd(line: string, value: unknown): AuditFault | null {
    const end = parseAuditEnd(value);
    if (end === null) return 'no_end_here';
    if (auditEndLine(end) !== `${line}\n`) return 'not_canonical';
    if (end.entries !== count.entries) return 'wrong_counts';
    const [first] = end.broken;
    if (first !== undefined) {
      const { chain_id: chainId, sequence } = first;
      const sentence = `${sentences.broken}: ${describeBroken(first)}`;
      failure = { ...failed('broken'), sentence, chainId, sequence, broken: end.broken };
    } else if (isInside()) return 'stops_early';
    isEnded = true;
    return null;
  }

  const isInside = () => manifest !== null && head.sequence < manifest.lastSequence;

  function faultOf(line: string | null): AuditFault | null {
    if (isEnded) return 'after_end';
    if (line === null) return 'not_a_line';
    const value = parseJson(line);
    if (manifest === null) return takeManifest(line, value);
    const isEnd = !isInside() || parseAuditEnd(value) !== null;
    return isEnd ? takeEnd(line, value) : takeEntry(line, value, manifest);
  }

  const failed = (fault: AuditFault): Invalid => ({
    kind: 'invalid',
    fault,
    sentence: sentences[fault],
    line: count.lines,
    chainId: isInside() ? (manifest?.accountId ?? null) : null,
    sequence: isInside() ? head.sequence + 1 : null,
    broken: [],
    brokenUnnamed: 0,
  });

  function fail(fault: AuditFault): Invalid {
    failure = failed(fault);
    return failure;
  }

  return {
    take: (line) => {
      if (failure !== null) return failure;
      count.lines++;
      const fault = faultOf(line);
      return fault === null ? failure : fail(fault);
    },
    finish: () => {
      if (failure !== null) return failure;
      if (!isEnded) return fail('no_end');
      return { kind: 'valid', chains: 1, records: count.entries, compromisedRecords: count.compromised };
    },
    get records() {
      return count.entries;
    },
  };
}

/** Undefined, which no JSON line yields, if it is not JSON. */
function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
