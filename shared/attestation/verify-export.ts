import type { Keyset } from '../crypto/keyset.ts';
import { limits } from '../model/limits.ts';
import { type BrokenAnswer, describeBroken } from './broken-chains.ts';
import { type ChainHead, emptyChain, type RecordFault, recordFaults, verifyAttestation } from './chain.ts';
import {
  chainLine,
  type ExportChain,
  type ExportManifest,
  endLine,
  manifestLine,
  parseChain,
  parseEnd,
  parseManifest,
  recordLine,
} from './export.ts';
import { csvHeader } from './export-csv.ts';
import { isJsonStart, jsonLineReader, type LineRead } from './export-json.ts';

/** Faults of an export beyond its single records, with their texts. */
const lineFaults = {
  not_a_line:
    'this is not a line of UTF-8 text that ends in a newline, or it is longer than any in an export',
  not_canonical: 'this line is not in the canonical form that the service writes: it was changed',
  not_laid_out: 'these lines are not laid out as in a JSON export: verify the file as it was downloaded',
  csv: 'this is an export as CSV, which lacks what is verified: export as jsonl or json',
  no_manifest:
    'the first line is not a manifest of a known format. If this is an export, another program has rewritten it: ' +
    'verify the file as it was downloaded',
  manifest_key_unknown:
    'the manifest names a key that is not an attestation key of the JWKS (fetch the JWKS again)',
  key_not_listed: 'this record names a signing key that the manifest does not',
  key_not_yet_valid: 'this record names a signing key that came into force after the export was made',
  no_chain: 'a chain header or the end line is expected here',
  chain_order: 'the chains are not in ascending order',
  chain_start: 'this chain does not start where its export should start',
  wrong_chain: 'this record belongs to another chain',
  wrong_last_hash: 'this is the last record of its chain, but not the one that the chain header names',
  stops_early:
    'this chain stops before the last record that its header names, and the end line does not name it',
  broken: 'the service itself found chains that are not whole in its database',
  wrong_counts: 'the counts of chains and records differ from those in the end line',
  after_end: 'nothing may follow the end line',
  no_end: 'the export is incomplete: it has no end line',
} as const;

const sentences = { ...recordFaults, ...lineFaults };

type ExportFault = RecordFault | keyof typeof lineFaults;

export type ExportVerdict<Fault extends string = ExportFault> =
  | {
      readonly kind: 'valid';
      readonly chains: number;
      readonly records: number;
      /**
       * Records signed by a key that the JWKS marks compromised; a thief of the key could have written them.
       */
      readonly compromisedRecords: number;
    }
  | {
      readonly kind: 'invalid';
      readonly fault: Fault;
      readonly sentence: string;
      /** From 1. */
      readonly line: number;
      /** The faulty chain and the expected sequence number; null outside of a chain. */
      readonly chainId: string | null;
      readonly sequence: number | null;
      /**
       * Chains that the service reports as broken; the rest of the file verifies. Empty for other faults.
       */
      readonly broken: readonly BrokenAnswer[];
      /** How many more it counts. */
      readonly brokenUnnamed: number;
    };

type Invalid = Extract<ExportVerdict, { kind: 'invalid' }>;

export interface ExportVerifier<Fault extends string = ExportFault> {
  /**
   * One line without its newline; null for a line that is not text. After a fault it keeps returning that
   * fault.
   */
  take(line: string | null): Extract<ExportVerdict<Fault>, { kind: 'invalid' }> | null;
  /** After the last line. */
  finish(): ExportVerdict<Fault>;
  readonly records: number;
}

/**
 * Verifies an export as jsonl or as json line by line, in constant memory: spelling, hashes, links, sequence
 * numbers, signatures, keys, what the headers and the end announce. The checks are those of docs/verify.md,
 * in its order. Never throws, whatever the lines say.
 *
 *   manifest ──> between ──chain──> inside ──last record──> between ──end──> ended
 */
export function exportVerifier(keys: Keyset): ExportVerifier {
  /** Converts a line of the file to jsonl; the first line shows the format. */
  let readLine: ((line: string) => LineRead) | null = null;
  let manifest: ExportManifest | null = null;
  let chain: ExportChain | null = null;
  let head: ChainHead = emptyChain;
  let lastChainId = '';
  let isEnded = false;
  /** The first chain that stops early; a fault unless the end names broken chains. */
  let stopped: Place | null = null;
  let failure: Invalid | null = null;
  const count = { lines: 0, chains: 0, records: 0, compromised: 0 };

  function takeManifest(line: string, value: unknown): ExportFault | null {
    const found = parseManifest(value);
    if (found === null) return 'no_manifest';
    if (manifestLine(found) !== `${line}\n`) return 'not_canonical';
    if (found.keyIds.some((kid) => keys.find('attestation', kid) === null)) return 'manifest_key_unknown';
    manifest = found;
    return null;
  }

  function takeChain(line: string, value: unknown, { sinceMs }: ExportManifest): ExportFault | null {
    const found = parseChain(value);
    if (found === null) return 'no_chain';
    if (chainLine(found) !== `${line}\n`) return 'not_canonical';
    if (found.chainId <= lastChainId) return 'chain_order';
    const isFirst = found.firstSequence === 1;
    if (isFirst !== (found.previousAttestationHash === null)) return 'chain_start';
    if (!isFirst && sinceMs === null) return 'chain_start';
    chain = found;
    head = { sequence: found.firstSequence - 1, hash: found.previousAttestationHash };
    lastChainId = found.chainId;
    count.chains++;
    return null;
  }

  function takeRecord(
    line: string,
    value: unknown,
    of: ExportChain,
    listed: ExportManifest,
  ): ExportFault | null {
    const verdict = verifyAttestation(value, head, keys);
    if (verdict.kind === 'invalid') return verdict.fault;
    const { attestation, key } = verdict;
    if (recordLine(attestation) !== `${line}\n`) return 'not_canonical';
    if (attestation.chainId !== of.chainId) return 'wrong_chain';
    if (!listed.keyIds.includes(key.kid)) return 'key_not_listed';
    // A record has the time of its decision, possibly long before its signature, so the export's time is the
    // bound.
    if (key.notBeforeMs > listed.createdAtMs + limits.notBeforeLeewayMs) return 'key_not_yet_valid';
    const isFirst = attestation.sequence === of.firstSequence;
    if (isFirst && listed.sinceMs !== null && attestation.timestampMs < listed.sinceMs) return 'chain_start';
    const isLast = attestation.sequence === of.lastSequence;
    if (isLast && attestation.hash !== of.lastHash) return 'wrong_last_hash';
    head = { sequence: attestation.sequence, hash: attestation.hash };
    if (isLast) chain = null;
    count.records++;
    if (key.compromised) count.compromised++;
    return null;
  }

  function takeEnd(line: string, value: unknown): ExportFault | null {
    const found = parseEnd(value);
    if (found === null) return 'no_chain';
    if (endLine(found) !== `${line}\n`) return 'not_canonical';
    if (found.chains !== count.chains || found.records !== count.records) return 'wrong_counts';
    isEnded = true;
    const [first] = found.broken;
    if (first !== undefined) {
      const at = { line: count.lines, chainId: first.chain_id, sequence: first.sequence };
      failure = { ...failed('broken', at), broken: found.broken, brokenUnnamed: found.brokenUnnamed };
      failure = { ...failure, sentence: `${failure.sentence}: ${describeBroken(first)}` };
    } else if (stopped !== null) failure = failed('stops_early', stopped);
    return null;
  }

  function faultOf(line: string | null): ExportFault | null {
    if (isEnded) return 'after_end';
    if (line === null) return 'not_a_line';
    if (manifest === null && line.startsWith(csvHeader)) return 'csv';
    readLine ??= isJsonStart(line) ? jsonLineReader() : (same) => ({ kind: 'line', line: same });
    const read = readLine(line);
    if (read.kind === 'misplaced') return 'not_laid_out';
    return read.kind === 'closing' ? null : takeLine(read.line);
  }

  function takeLine(line: string): ExportFault | null {
    const value = parseJson(line);
    if (manifest === null) return takeManifest(line, value);
    if (chain !== null && !isStop(value)) return takeRecord(line, value, chain, manifest);
    if (chain !== null) stopped ??= { line: count.lines, chainId: lastChainId, sequence: head.sequence + 1 };
    chain = null;
    return parseEnd(value) === null ? takeChain(line, value, manifest) : takeEnd(line, value);
  }

  function fail(fault: ExportFault): Invalid {
    const isInside = chain !== null;
    failure = failed(fault, {
      line: count.lines,
      chainId: isInside ? lastChainId : null,
      sequence: isInside ? head.sequence + 1 : null,
    });
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
      return {
        kind: 'valid',
        chains: count.chains,
        records: count.records,
        compromisedRecords: count.compromised,
      };
    },
    get records() {
      return count.records;
    },
  };
}

type Place = Pick<Invalid, 'line' | 'chainId' | 'sequence'>;

const failed = (fault: ExportFault, place: Place): Invalid => ({
  kind: 'invalid',
  fault,
  sentence: sentences[fault],
  ...place,
  broken: [],
  brokenUnnamed: 0,
});

/** Whether a line in place of a record is another chain's header, or the end. */
const isStop = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (('chain' in value && parseChain(value) !== null) || ('end' in value && parseEnd(value) !== null));

/** Undefined, which no JSON line yields, if it is not JSON. */
function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
