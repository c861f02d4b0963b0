import { Attachments, isAttachment } from './attachments.ts';
import { canonical, type Json } from './canonical.ts';
import { isJsonStart, jsonLineReader, type LineRead } from './export-lines.ts';
import {
  type BrokenChain,
  type Chain,
  chainOf,
  type End,
  endOf,
  format2,
  isRecord,
  type Manifest,
  manifestOf,
} from './export-shapes.ts';
import { Facts, isFactsLine } from './facts.ts';
import { includedHead } from './log-proof.ts';
import { demand, type ExportCrypto, type ExportFault, Fault, type Head, verifyRecord } from './record.ts';

export type ExportVerdict =
  | {
      readonly kind: 'valid';
      readonly chains: number;
      readonly records: number;
      readonly created_at: string;
      readonly since: string | null;
      /** Records by a compromised key: in their place, but their author is uncertain. */
      readonly compromised: number;
      /** Chains of which records are in archives. */
      readonly archived: number;
      /** Passports and approvals by such a key: what the file says of them may be forged. */
      readonly compromised_statements: number;
      /** Approvals that are stated to be removed: nothing shows who answered them. */
      readonly removed_approvals: number;
      /** Commitments of records that values in the file open, and those that none does. */
      readonly facts_opened: number;
      readonly facts_withheld: number;
    }
  | InvalidExport;

export interface InvalidExport {
  readonly kind: 'invalid';
  readonly fault: ExportFault;
  /** For people. */
  readonly message: string;
  /** Where the fault begins, from 1; and the record that is expected there. Null: outside of a chain. */
  readonly line: number;
  readonly chainId: string | null;
  readonly sequence: number | null;
  /** Chains that the service reports as broken; the rest of the file verifies. Empty for other faults. */
  readonly broken: readonly BrokenChain[];
  /** How many more it counts. */
  readonly brokenUnnamed: number;
  /** Where it was found: the line, the chain of the newest header, and what the record there says. */
  readonly found: Pick<InvalidExport, 'line' | 'chainId' | 'sequence'>;
}

/** Where the chains of earlier files end, for an export that goes on from archives. */
export interface EarlierChains {
  follows(chain: Chain): boolean;
  end(chainId: string, head: Head): void;
}

type Inside = { readonly kind: 'inside'; readonly manifest: Manifest; readonly chain: Chain };

/**
 *     manifest ──> between ──chain──> inside ──last record──> between ──end──> ended
 *                     └──attachment──> attached ──attachments──> attached ──end──> ended
 */
type State =
  | { readonly kind: 'start' }
  | { readonly kind: 'ended'; readonly manifest: Manifest }
  | { readonly kind: 'between' | 'attached'; readonly manifest: Manifest }
  | Inside;

type Place = Pick<InvalidExport, 'line' | 'chainId' | 'sequence'>;

/** Verifies an export by docs/verify.md, 6, line by line, in constant memory. Throws for no line. */
export class ExportVerifier {
  readonly #crypto: ExportCrypto;
  readonly #earlier: EarlierChains | null;
  readonly #attachments: Attachments;
  readonly #facts: Facts;
  /** Converts a line of the file to jsonl; the first line shows the format. */
  #readLine: ((line: string) => LineRead) | null = null;
  #state: State = { kind: 'start' };
  /** Of the newest header; after the end, of the first broken chain. */
  #chainId: string | null = null;
  #head: Head = { sequence: 0, hash: null };
  /** What the log has of this chain, by its header. */
  #logged: Awaited<ReturnType<typeof includedHead>> = null;
  /** Where the first chain stops early, which it may where the end names broken chains. */
  #stopped: Place | null = null;
  #broken: Pick<InvalidExport, 'broken' | 'brokenUnnamed'> = { broken: [], brokenUnnamed: 0 };
  /** What the record of this line says, and so the end of the first broken chain; null: it is neither. */
  #sequence: number | null = null;
  #failure: InvalidExport | null = null;
  #lines = 0;
  #chains = 0;
  #records = 0;
  #archived = 0;
  #compromised = 0;

  constructor(crypto: ExportCrypto, earlier: EarlierChains | null = null) {
    this.#crypto = crypto;
    this.#earlier = earlier;
    this.#attachments = new Attachments(crypto);
    this.#facts = new Facts(crypto);
  }

  get records(): number {
    return this.#records;
  }

  /** One line without its newline; null: it is not text. After a fault it keeps answering that fault. */
  async take(line: string | null): Promise<InvalidExport | null> {
    if (this.#failure !== null) return this.#failure;
    this.#lines += 1;
    this.#sequence = null;
    try {
      await this.#read(line);
      return null;
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return this.#fail(error);
    }
  }

  /** After the last line. */
  finish(): ExportVerdict {
    if (this.#failure !== null) return this.#failure;
    this.#sequence = null;
    if (this.#state.kind !== 'ended') return this.#fail(new Fault('no_end', 'the file has no end'));
    const { created_at, since } = this.#state.manifest;
    return {
      kind: 'valid',
      archived: this.#archived,
      chains: this.#chains,
      records: this.#records,
      created_at,
      since,
      compromised: this.#compromised,
      compromised_statements: this.#attachments.compromised,
      removed_approvals: this.#attachments.removed,
      facts_opened: this.#facts.opened,
      facts_withheld: this.#facts.withheld,
    };
  }

  #fail({ fault, message }: Fault): InvalidExport {
    const found = { line: this.#lines, chainId: this.#chainId, sequence: this.#sequence };
    const begin = fault === 'stops_early' ? this.#stopped : fault === 'broken' ? found : this.#place();
    this.#failure = { kind: 'invalid', fault, message, ...(begin ?? found), ...this.#broken, found };
    return this.#failure;
  }

  /** Within a chain: of the record that is expected next. */
  #place(): Place {
    const isInside = this.#state.kind === 'inside';
    const [chainId, sequence] = isInside ? [this.#chainId, this.#head.sequence + 1] : [null, null];
    return { line: this.#lines, chainId, sequence };
  }

  async #read(line: string | null): Promise<void> {
    const state = this.#state;
    demand(state.kind !== 'ended', 'after_end', 'something follows the end');
    demand(line !== null, 'not_a_line', 'the line is not text');
    const isCsv = state.kind === 'start' && line.startsWith(csvStart);
    demand(!isCsv, 'csv', 'this is CSV, which lacks what is verified');
    this.#readLine ??= isJsonStart(line) ? jsonLineReader() : (same) => ({ kind: 'line', line: same });
    const read = this.#readLine(line);
    demand(read.kind !== 'misplaced', 'not_laid_out', 'the line stands in the wrong place');
    if (read.kind === 'line') await this.#readJsonl(read.line, parse(read.line), state);
  }

  async #readJsonl(line: string, value: unknown, state: Exclude<State, { kind: 'ended' }>): Promise<void> {
    if (state.kind === 'start') return this.#readManifest(line, value);
    const { manifest } = state;
    if (isFactsLine(value) && manifest.format === format2 && state.kind !== 'attached') {
      demandCanonical(value, line);
      return this.#facts.read(value);
    }
    const [chain, end] = [chainOf(value), endOf(value)];
    const isNamed = isAttachment(value);
    if (state.kind === 'inside') {
      if (chain === null && end === null && !isNamed) return this.#readRecord(line, value, state);
      this.#stopped ??= this.#place();
      this.#state = { kind: 'between', manifest };
    }
    if (end !== null) {
      demandCanonical(value, line);
      return this.#readEnd(end, manifest);
    }
    if (isNamed && manifest.format === format2) return this.#readAttachment(line, value, manifest);
    const isPlace = this.#state.kind !== 'attached' && chain !== null;
    demand(
      isPlace,
      'no_chain',
      value === undefined ? 'the line is not JSON' : 'the line is none of this place',
    );
    demandCanonical(value, line);
    return this.#readChain(chain, manifest);
  }

  #readManifest(line: string, value: unknown): void {
    const manifest = manifestOf(value);
    demand(manifest !== null, 'no_manifest', 'the line is no manifest of this format');
    demandCanonical(value, line);
    for (const kid of manifest.key_ids) {
      const isKnown = this.#crypto.find('attestation', kid) !== null;
      demand(isKnown, 'manifest_key_unknown', `${kid} is no attestation key of the JWKS`);
    }
    this.#state = { kind: 'between', manifest };
  }

  async #readChain(chain: Chain, manifest: Manifest): Promise<void> {
    const { archived, chain_id: chainId, first_sequence: first, last_sequence: last } = chain;
    const previous = chain.previous_attestation_hash;
    demand(chainId > (this.#chainId ?? ''), 'chain_order', 'the chains are not in ascending order');
    this.#chainId = chainId;
    const isStart = (first === 1) === (previous === null);
    demand(isStart, 'chain_start', 'only the first record of a chain follows none');
    const isArchived = followsArchive(chain);
    const isWhole = first === 1 || isArchived || manifest.since !== null;
    demand(isWhole, 'chain_start', 'the chain lacks its beginning');
    const isBehind = !isArchived || previous === archived?.hash;
    demand(isBehind, 'wrong_archived', 'the chain does not go on after its archive');
    this.#head = { sequence: first - 1, hash: previous };
    const isJoined = this.#earlier?.follows(chain) !== false;
    demand(isJoined, 'not_joined', 'the chain does not go on where the files before this one end');
    this.#logged = chain.log_proof === undefined ? null : await includedHead(chain.log_proof);
    const { sequence = 0, chainId: loggedId = '' } = this.#logged ?? {};
    const isLogged = loggedId === chainId && sequence >= first && sequence <= last;
    const isProven = isLogged || chain.log_proof === undefined;
    demand(isProven, 'log_proof_invalid', 'the proof of the log does not hold for the chain');
    this.#chains += 1;
    if (archived !== undefined) this.#archived += 1;
    const isEmpty = last < first;
    const isLast = !isEmpty || chain.last_hash === previous;
    demand(isLast, 'wrong_last_hash', 'the chain does not end with the record that its header names');
    if (isEmpty) this.#endChain(chainId, manifest);
    else this.#state = { kind: 'inside', manifest, chain };
  }

  #endChain(chainId: string, manifest: Manifest): void {
    this.#earlier?.end(chainId, this.#head);
    this.#state = { kind: 'between', manifest };
  }

  async #readRecord(line: string, value: unknown, { chain, manifest }: Inside): Promise<void> {
    const isOfFormat = isRecord(value) && (manifest.format === format2 || !('asserted' in value));
    demand(isOfFormat, 'malformed', 'the line is no record of this format');
    const { hash, sequence, signing_key_id: kid, timestamp } = value;
    this.#sequence = sequence;
    const { key, text } = await verifyRecord(value, this.#head, this.#crypto);
    demand(text === line, 'not_canonical', anotherForm);
    demand(value.chain_id === chain.chain_id, 'wrong_chain', 'the record is of another chain');
    const isListed = manifest.key_ids.includes(kid);
    demand(isListed, 'key_not_listed', 'the key is not one of the manifest');
    // A record has the time of its decision, possibly long before its signature, so the export's time is the
    // bound.
    const isInForce = key.notBeforeMs <= Date.parse(manifest.created_at) + notBeforeLeewayMs;
    demand(isInForce, 'key_not_yet_valid', 'the key is newer than the export');
    const isLogged = this.#logged?.sequence !== sequence || this.#logged.hash === hash;
    demand(isLogged, 'log_proof_differs', 'the log has another record here');
    // After an archive, the first record not older may be in it.
    const mayBeOlder = sequence !== chain.first_sequence || followsArchive(chain);
    const isSince = mayBeOlder || manifest.since === null || timestamp >= manifest.since;
    demand(isSince, 'chain_start', 'the chain begins before since');
    const isLast = sequence === chain.last_sequence;
    const isNamed = !isLast || hash === chain.last_hash;
    demand(isNamed, 'wrong_last_hash', 'the chain does not end with the record that its header names');
    if (manifest.format === format2) {
      this.#attachments.name(value);
      this.#facts.name(value);
    }
    this.#head = { sequence, hash };
    if (isLast) this.#endChain(chain.chain_id, manifest);
    this.#records += 1;
    if (key.isCompromised) this.#compromised += 1;
  }

  async #readAttachment(line: string, value: Json, manifest: Manifest): Promise<void> {
    demandCanonical(value, line);
    await this.#attachments.read(value, manifest.key_ids);
    this.#state = { kind: 'attached', manifest };
  }

  #readEnd(
    { chains, records, broken = [], broken_unnamed: brokenUnnamed = 0 }: End,
    manifest: Manifest,
  ): void {
    demand(this.#attachments.areAllThere, 'attachment_missing', 'a record names what is not there');
    const isRight = chains === this.#chains && records === this.#records;
    demand(isRight, 'wrong_counts', 'the end counts other chains or records');
    this.#state = { kind: 'ended', manifest };
    const [first] = broken;
    if (first !== undefined) {
      this.#broken = { broken, brokenUnnamed };
      [this.#chainId, this.#sequence] = [first.chain_id, first.sequence];
      const count = broken.length + brokenUnnamed;
      const message = `the service names ${count} chains that are not whole, the first for ${first.fault}`;
      throw new Fault('broken', message);
    }
    const isWhole = this.#stopped === null;
    demand(isWhole, 'stops_early', 'a chain does not end with the record that its header names');
  }
}

const csvStart = 'id,timestamp,chain_id,sequence,';
const anotherForm = 'the line is not a JSON object in its RFC 8785 form';
const notBeforeLeewayMs = 60_000;

/** Whether all records before the first one are in archives. */
const followsArchive = ({ archived, first_sequence }: Chain): boolean =>
  archived !== undefined && first_sequence === archived.through_sequence + 1;

function demandCanonical(value: unknown, line: string): void {
  demand(canonical(value) === line, 'not_canonical', anotherForm);
}

/** Undefined, which no JSON is, for what is none. */
function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
