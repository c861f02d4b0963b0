import type { Keyset } from '../crypto/keyset.ts';
import type { LoggedHead } from '../log/entry.ts';
import { isIncluded, parseLogProof } from '../log/proof.ts';
import { limits } from '../model/limits.ts';
import {
  type Attachment,
  AttachmentReader,
  attachmentFaults,
  attachmentLine,
  parseAttachment,
} from './attachments.ts';
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
import {
  brokenFinding,
  commonFaults,
  ExportVerifier,
  type Finding,
  type LineReader,
  parseJson,
} from './verify-lines.ts';

/** Faults of an export beyond its single records, with their texts. */
const lineFaults = {
  ...commonFaults,
  not_laid_out: 'these lines are not laid out as in a JSON export: verify the file as it was downloaded',
  csv: 'this is an export as CSV, which lacks what is verified: export as jsonl or json',
  no_manifest:
    'the first line is not a manifest of a known format. If this is an export, another program has rewritten it: ' +
    'verify the file as it was downloaded',
  key_not_listed: 'this record names a signing key that the manifest does not',
  key_not_yet_valid: 'this record names a signing key that came into force after the export was made',
  no_chain: 'a chain header or the end line is expected here',
  chain_order: 'the chains are not in ascending order',
  wrong_chain: 'this record belongs to another chain',
  wrong_last_hash: 'this is the last record of its chain, but not the one that the chain header names',
  stops_early:
    'this chain stops before the last record that its header names, and the end line does not name it',
  broken: 'the service itself found chains that are not whole in its database',
  wrong_archived: 'this chain does not go on behind the archived records that its header names',
  log_proof_invalid:
    'the proof of the log in this chain header does not hold, or is not of a record that follows',
  log_proof_differs: 'this is not the record that the proof of the log in its chain header has',
  not_joined: 'this chain does not go on where the files before this one end',
  ...attachmentFaults,
  wrong_counts: 'the counts of chains and records differ from those in the end line',
} as const;

const sentences = { ...recordFaults, ...lineFaults };

type ExportFault = RecordFault | keyof typeof lineFaults;

/**
 * Verifies an export as jsonl or as json: spelling, hashes, links, sequence numbers, signatures, keys, what
 * the headers and the end announce. The checks are those of docs/verify.md, in its order.
 */
export const exportVerifier = (keys: Keyset, before: JoinedChains | null = null): ExportVerifier =>
  new ExportVerifier(new ExportReader(keys, before), sentences);

/**
 * Where the chains of the files before end, for an export that goes on from archives: the memory of a hash
 * for each chain. A chain that no file has may begin in the first one alone, or at its first record.
 */
export class JoinedChains {
  readonly #heads = new Map<string, ChainHead>();
  #files = 0;

  /** Of the next file. */
  beginFile(): void {
    this.#files += 1;
  }

  follows({ chainId, archived, firstSequence, previousAttestationHash }: ExportChain): boolean {
    const head = this.#heads.get(chainId);
    if (head === undefined) return archived === null || this.#files <= 1;
    return firstSequence === head.sequence + 1 && previousAttestationHash === head.hash;
  }

  end(chainId: string, head: ChainHead): void {
    this.#heads.set(chainId, head);
  }
}

/**
 *     manifest ──> between ──chain──> inside ──last record──> between ──end──> ended
 *                     └──attachment──> attached ──attachments──> attached ──end──> ended
 */
type State =
  | { readonly kind: 'start' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'between' | 'attached'; readonly manifest: ExportManifest }
  | { readonly kind: 'inside'; readonly manifest: ExportManifest; readonly chain: ExportChain };

type Found = ExportFault | Finding<ExportFault> | null;

class ExportReader implements LineReader {
  readonly #keys: Keyset;
  /** Converts a line of the file to jsonl; the first line shows the format. */
  #readLine: ((line: string) => LineRead) | null = null;
  #state: State = { kind: 'start' };
  #head: ChainHead = emptyChain;
  /** What the log has of this chain, by its header; null: nothing. */
  #logged: LoggedHead | null = null;
  #lastChainId = '';
  /** The first chain that stops early; a fault unless the end names broken chains. */
  #stopped: Finding<'stops_early'> | null = null;
  readonly #before: JoinedChains | null;
  readonly #attachments: AttachmentReader;
  readonly count = {
    ...{ chains: 0, records: 0, compromised: 0, archived: 0 },
    ...{ compromisedStatements: 0, removedApprovals: 0 },
  };

  constructor(keys: Keyset, before: JoinedChains | null) {
    this.#keys = keys;
    this.#before = before;
    this.#attachments = new AttachmentReader(keys);
  }

  get isEnded(): boolean {
    return this.#state.kind === 'ended';
  }

  get place(): { readonly chainId: string | null; readonly sequence: number | null } {
    const isInside = this.#state.kind === 'inside';
    return isInside ? this.#nextRecord() : { chainId: null, sequence: null };
  }

  read(line: string | null, number: number): Found {
    if (this.isEnded) return 'after_end';
    if (line === null) return 'not_a_line';
    if (this.#state.kind === 'start' && line.startsWith(csvHeader)) return 'csv';
    this.#readLine ??= isJsonStart(line) ? jsonLineReader() : (same) => ({ kind: 'line', line: same });
    const read = this.#readLine(line);
    if (read.kind === 'misplaced') return 'not_laid_out';
    return read.kind === 'closing' ? null : this.#readJsonl(read.line, number);
  }

  #readJsonl(line: string, number: number): Found {
    const value = parseJson(line);
    const state = this.#state;
    if (state.kind === 'start' || state.kind === 'ended') return this.#readManifest(line, value);
    if (state.kind === 'inside') {
      if (!isStop(value)) return this.#readRecord(line, value, state);
      this.#stopped ??= { fault: 'stops_early', line: number, ...this.#nextRecord() };
      this.#state = { kind: 'between', manifest: state.manifest };
    }
    if (parseEnd(value) !== null) return this.#readEnd(line, value);
    const attachment = state.manifest.form === 1 ? null : parseAttachment(value);
    if (attachment !== null) return this.#readAttachment(line, attachment, state.manifest);
    return this.#state.kind === 'attached' ? 'no_chain' : this.#readChain(line, value, state.manifest);
  }

  #readManifest(line: string, value: unknown): Found {
    const manifest = parseManifest(value);
    if (manifest === null) return 'no_manifest';
    if (manifestLine(manifest) !== `${line}\n`) return 'not_canonical';
    const isKnown = (kid: string) => this.#keys.find('attestation', kid) !== null;
    if (!manifest.keyIds.every(isKnown)) return 'manifest_key_unknown';
    this.#state = { kind: 'between', manifest };
    return null;
  }

  #readChain(line: string, value: unknown, manifest: ExportManifest): Found {
    const chain = parseChain(value);
    if (chain === null) return 'no_chain';
    if (chainLine(chain) !== `${line}\n`) return 'not_canonical';
    if (chain.chainId <= this.#lastChainId) return 'chain_order';
    const isFirst = chain.firstSequence === 1;
    if (isFirst !== (chain.previousAttestationHash === null)) return 'chain_start';
    if (!isFirst && !followsArchive(chain) && manifest.sinceMs === null) return 'chain_start';
    if (followsArchive(chain) && chain.previousAttestationHash !== chain.archived?.hash)
      return 'wrong_archived';
    this.#head = { sequence: chain.firstSequence - 1, hash: chain.previousAttestationHash };
    this.#lastChainId = chain.chainId;
    if (this.#before?.follows(chain) === false) return 'not_joined';
    const proof = chain.logProof === null ? null : parseLogProof(chain.logProof);
    if (chain.logProof !== null && (proof === null || !isProofOf(proof, chain))) return 'log_proof_invalid';
    this.#logged = proof?.head ?? null;
    this.count.chains++;
    if (chain.archived !== null) this.count.archived++;
    const isEmpty = chain.lastSequence < chain.firstSequence;
    if (isEmpty && chain.lastHash !== this.#head.hash) return 'wrong_last_hash';
    if (isEmpty) this.#before?.end(chain.chainId, this.#head);
    this.#state = isEmpty ? { kind: 'between', manifest } : { kind: 'inside', manifest, chain };
    return null;
  }

  #readRecord(line: string, value: unknown, { manifest, chain }: Extract<State, { kind: 'inside' }>): Found {
    const verdict = verifyAttestation(value, this.#head, this.#keys);
    if (verdict.kind === 'invalid') return verdict.fault;
    const { attestation, key } = verdict;
    if (recordLine(attestation) !== `${line}\n`) return 'not_canonical';
    if (attestation.chainId !== chain.chainId) return 'wrong_chain';
    if (manifest.form === 1 && attestation.asserted !== null) return 'malformed';
    if (manifest.form === 2) this.#attachments.name(attestation);
    if (!manifest.keyIds.includes(key.kid)) return 'key_not_listed';
    // A record has the time of its decision, possibly long before its signature, so the export's time is the
    // bound.
    if (key.notBeforeMs > manifest.createdAtMs + limits.notBeforeLeewayMs) return 'key_not_yet_valid';
    if (this.#logged?.sequence === attestation.sequence && this.#logged.hash !== attestation.hash)
      return 'log_proof_differs';
    const isFirst = attestation.sequence === chain.firstSequence;
    const { sinceMs } = manifest;
    // Behind an archive, the first record not older may be in it.
    const mayBeOlder = !isFirst || sinceMs === null || followsArchive(chain);
    if (!mayBeOlder && attestation.timestampMs < sinceMs) return 'chain_start';
    const isLast = attestation.sequence === chain.lastSequence;
    if (isLast && attestation.hash !== chain.lastHash) return 'wrong_last_hash';
    this.#head = { sequence: attestation.sequence, hash: attestation.hash };
    if (isLast) this.#state = { kind: 'between', manifest };
    if (isLast) this.#before?.end(chain.chainId, this.#head);
    this.count.records++;
    if (key.compromised) this.count.compromised++;
    return null;
  }

  #readAttachment(line: string, attachment: Attachment, manifest: ExportManifest): Found {
    if (!isLineOf(attachment, line)) return 'not_canonical';
    const fault = this.#attachments.read(attachment, manifest.keyIds);
    if (fault === null) this.#state = { kind: 'attached', manifest };
    this.count.compromisedStatements = this.#attachments.compromised;
    this.count.removedApprovals = this.#attachments.removed;
    return fault;
  }

  #readEnd(line: string, value: unknown): Found {
    const end = parseEnd(value);
    if (end === null) return 'no_chain';
    if (endLine(end) !== `${line}\n`) return 'not_canonical';
    if (this.#attachments.isAnyMissing) return 'attachment_missing';
    if (end.chains !== this.count.chains || end.records !== this.count.records) return 'wrong_counts';
    this.#state = { kind: 'ended' };
    const [first] = end.broken;
    if (first === undefined) return this.#stopped;
    return brokenFinding(first, sentences.broken, { broken: end.broken, brokenUnnamed: end.brokenUnnamed });
  }

  /** The record that is expected next. */
  #nextRecord(): { readonly chainId: string; readonly sequence: number } {
    return { chainId: this.#lastChainId, sequence: this.#head.sequence + 1 };
  }
}

/** False too for what has no RFC 8785 form, such as a lone surrogate, or is nested too deeply for one. */
function isLineOf(attachment: Attachment, line: string): boolean {
  try {
    return attachmentLine(attachment) === `${line}\n`;
  } catch {
    return false;
  }
}

/** Whether it proves by itself that the log has a record of this chain. */
const isProofOf = (proof: NonNullable<ReturnType<typeof parseLogProof>>, chain: ExportChain): boolean =>
  proof.head.chainId === chain.chainId &&
  proof.head.sequence >= chain.firstSequence &&
  proof.head.sequence <= chain.lastSequence &&
  isIncluded(proof);

/** Whether all records before the first one are in archives. */
const followsArchive = ({ archived, firstSequence }: ExportChain): boolean =>
  archived !== null && firstSequence === archived.throughSequence + 1;

/** Whether a line in place of a record is another chain's header, or the end. */
const isStop = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (('chain' in value && parseChain(value) !== null) ||
    parseAttachment(value) !== null ||
    ('end' in value && parseEnd(value) !== null));
