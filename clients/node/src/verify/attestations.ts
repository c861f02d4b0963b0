import { Attachments, isAttachment } from './attachments.ts';
import { canonical, hashOf, isObject, type Json } from './canonical.ts';
import { keysOf, type ServiceKey, verifies } from './keys.ts';
import { includedHead } from './log-proof.ts';

export type AttestationsVerdict =
  | {
      readonly valid: true;
      readonly chains: number;
      readonly records: number;
      readonly created_at: string;
      readonly since: string | null;
      /** Records by a compromised key: in their place, but their author is uncertain. */
      readonly compromised: number;
      /** Passports and approvals by such a key: what the file says of them may be forged. */
      readonly compromised_statements: number;
      /** Approvals that are stated to be removed: nothing shows who answered them. */
      readonly removed_approvals: number;
    }
  | {
      readonly valid: false;
      /** The fault, for people. */
      readonly fault: string;
      /** From 1, in the file. */
      readonly line: number;
      /** The current chain; null: none. */
      readonly chain_id: string | null;
      /** The faulty record; null: not a fault of a record. */
      readonly sequence: number | null;
    };

/** A file, or its bytes as they arrive (a response body, a stream of Node.js). */
export type ExportBytes = string | Uint8Array | AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>;

/**
 * Verifies an export of attestations, jsonl or json, by docs/verify.md alone: every byte of every line, every
 * hash, link and signature. One pass, in the memory of one line. `jwks` is the parsed
 * `/.well-known/jwks.json`, taken from the service itself. Throws TypeError for a `jwks` that is none, and
 * what reading the bytes throws. docs/verify.md, 7, has what it does NOT prove.
 */
export async function verifyAttestations(file: ExportBytes, jwks: unknown): Promise<AttestationsVerdict> {
  const reader = new ExportReader(await keysOf(jwks));
  let line = 0;
  try {
    for await (const text of jsonLines(linesOf(file), () => line++)) await reader.read(text);
    return reader.finish();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { chainId, sequence } = reader;
    return { valid: false, fault: error.message, line, chain_id: chainId, sequence };
  }
}

class Fault extends Error {}
function demand(holds: boolean, fault: string): asserts holds {
  if (!holds) throw new Fault(fault);
}

/** Longer than any record: 32 findings with pointers of 512 characters each are about 20 KiB. */
const lineCharsMax = 1024 * 1024;

async function* linesOf(file: ExportBytes): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const decode = (bytes?: Uint8Array): string => {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      throw new Fault('the file is not UTF-8');
    }
  };
  let rest = '';
  for await (const chunk of chunksOf(file)) {
    const lines = (rest + (typeof chunk === 'string' ? chunk : decode(chunk))).split('\n');
    rest = lines.pop() ?? '';
    demand(rest.length <= lineCharsMax, 'a line is too long');
    yield* lines;
  }
  demand(rest + decode() === '', 'the file does not end in a newline');
}

async function* chunksOf(file: ExportBytes): AsyncGenerator<string | Uint8Array> {
  if (typeof file === 'string' || file instanceof Uint8Array) yield file;
  else if ('getReader' in file) {
    // Not by iteration: Safari has no iterator of a ReadableStream.
    const reader = file.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } else yield* file;
}

/** The lines of the jsonl form, of either form (docs/verify.md, 8). */
async function* jsonLines(lines: AsyncIterable<string>, count: () => void): AsyncGenerator<string> {
  const [first, chain, close, last] = [',"chains":[', ',"attestations":[', ']}', '],"end":'];
  const attachments = '],"attachments":[';
  let isJson: boolean | null = null;
  /** What the line before has announced. */
  let next:
    | 'chain or end'
    | 'chain'
    | 'record'
    | 'another record'
    | 'close'
    | 'end'
    | 'attachment'
    | 'last'
    | 'nothing' = 'chain or end';
  for await (const line of lines) {
    count();
    if (isJson === null) {
      isJson = line.endsWith(first);
      yield isJson ? `${line.slice(0, -first.length)}}` : line;
    } else if (!isJson) yield line;
    else if (line.startsWith(last)) {
      demand(next === 'chain or end' || next === 'end' || next === 'last', 'a chain is not closed');
      next = 'nothing';
      yield `{${line.slice(2)}`;
    } else if (line === attachments) {
      demand(next === 'end', 'what follows the chains begins in the wrong place');
      next = 'attachment';
    } else if (next === 'attachment') {
      const isLast = !line.endsWith(',');
      if (isLast) next = 'last';
      yield isLast ? line : line.slice(0, -1);
    } else if (line.endsWith(chain)) {
      demand(next === 'chain or end' || next === 'chain', 'a chain begins in the wrong place');
      next = 'record';
      yield `{"chain":${line.slice(0, -chain.length)}}}`;
    } else if (line === close || line === `${close},`) {
      demand(next === 'close' || next === 'record', 'a chain ends in the wrong place');
      next = line === close ? 'end' : 'chain';
    } else {
      demand(next === 'record' || next === 'another record', 'a record stands in the wrong place');
      const isLast = !line.endsWith(',');
      next = isLast ? 'close' : 'another record';
      yield isLast ? line : line.slice(0, -1);
    }
  }
}

type Check = (value: unknown) => boolean;
const text: Check = (value) => typeof value === 'string';
const integer: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const positive: Check = (value) => integer(value) && value !== 0;
const matching =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === 'string' && pattern.test(value);
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const hash = matching(/^sha256:[0-9a-f]{64}$/);
const time = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const finding: Check = (value) => isObject(value) && hasMembers(value, { pointer: text, type: text });

// Exports from before 2026-11-27, and later ones.
const earlierManifestMembers = { created_at: time, format: text, key_ids: listOf(text), since: orNull(time) };
const manifestMembers = { ...earlierManifestMembers, generation: matching(/^gen_[0-9a-f]{32}$/) };
const chainMembers = {
  chain_id: text,
  first_sequence: positive,
  last_hash: hash,
  last_sequence: positive,
  previous_attestation_hash: orNull(hash),
};
const archivedChainMembers = {
  ...chainMembers,
  archived: (value: unknown) => isObject(value) && hasMembers(value, { hash, through_sequence: positive }),
};
const endMembers = { chains: integer, records: integer };
const brokenChain: Check = (value) =>
  isObject(value) && hasMembers(value, { chain_id: text, fault: text, sequence: positive });
const brokenEndMembers = { ...endMembers, broken: listOf(brokenChain) };
const longBrokenEndMembers = { ...brokenEndMembers, broken_unnamed: positive };
const earlierRecordMembers = {
  amount_micro_usd: orNull(integer),
  chain_id: text,
  constraints_evaluated: listOf(text),
  decision: matching(/^(?:PERMIT|SUSPEND|BLOCK)$/),
  gate_id: orNull(text),
  hash,
  id: text,
  passport_id: orNull(text),
  permission_key: orNull(text),
  pii: listOf(finding),
  previous_attestation_hash: orNull(hash),
  reason: orNull(text),
  request_hash: hash,
  resolution: orNull(text),
  sequence: positive,
  signature: text,
  signing_key_id: text,
  source: text,
  test: (value: unknown) => typeof value === 'boolean',
  timestamp: time,
};
const recordMembers = { ...earlierRecordMembers, refers_to: orNull(text), source_account: text };
const record2Members = {
  ...recordMembers,
  approval_id: orNull(text),
  asserted: (value: unknown) => typeof value === 'boolean',
  domain: orNull(text),
  hold_expires_at: orNull(time),
  policy_hash: orNull(hash),
  proof: orNull(text),
  state_age_ms: orNull(integer),
  trust_level: orNull(text),
  wallet_id: orNull(text),
};

/** Exactly these members, each as its check demands. */
const hasMembers = (value: Json, members: Readonly<Record<string, Check>>): boolean =>
  Object.keys(value).length === Object.keys(members).length &&
  Object.entries(members).every(([name, check]) => Object.hasOwn(value, name) && check(value[name]));

interface Manifest {
  readonly format: string;
  readonly created_at: string;
  readonly key_ids: readonly string[];
  readonly since: string | null;
}
interface Chain {
  /** The last of the records that are in an archive. */
  readonly archived?: { readonly hash: string; readonly through_sequence: number };
  readonly chain_id: string;
  readonly first_sequence: number;
  readonly last_hash: string;
  readonly last_sequence: number;
  readonly log_proof?: string;
  readonly previous_attestation_hash: string | null;
}

/** The checks of docs/verify.md, 6, line by line. */
class ExportReader {
  readonly #keys: ReadonlyMap<string, ServiceKey>;
  #manifest: Manifest | null = null;
  #chain: Chain | null = null;
  /** Of the record before; of the header before the first one. */
  #head: { readonly sequence: number; readonly hash: string | null } = { sequence: 0, hash: null };
  /** What the log has of this chain, by its header. */
  #logged: Awaited<ReturnType<typeof includedHead>> = null;
  #chains = 0;
  #records = 0;
  #compromised = 0;
  #isEnded = false;
  /** Whether a chain stops early, which it may where the end names broken chains. */
  #hasStopped = false;
  #broken: { readonly chain_id: string; readonly sequence: number; readonly fault: string } | null = null;
  readonly #attachments = new Attachments();
  /** Whether what the records name has begun. */
  #isAttached = false;
  sequence: number | null = null;

  constructor(keys: ReadonlyMap<string, ServiceKey>) {
    this.#keys = keys;
  }

  get chainId(): string | null {
    return this.#broken?.chain_id ?? this.#chain?.chain_id ?? null;
  }

  async read(line: string): Promise<void> {
    this.sequence = null;
    demand(!this.#isEnded, 'something follows the end');
    const value = parse(line);
    demand(
      isObject(value) && canonical(value) === line,
      'the line is not a JSON object in its RFC 8785 form',
    );
    if (this.#manifest === null) this.#readManifest(value);
    else if ('chain' in value)
      await this.#readChain(onlyMember(value, 'chain', chainMembersOf(value['chain'])) as unknown as Chain);
    else if (isAttachment(value)) await this.#readAttachment(value, this.#manifest);
    else if ('end' in value) this.#readEnd(onlyMember(value, 'end', endMembersOf(value['end'])));
    else await this.#readRecord(value, this.#manifest);
  }

  finish(): AttestationsVerdict {
    demand(this.#isEnded && this.#manifest !== null, 'the file has no end');
    const { created_at, since } = this.#manifest;
    const [chains, records, compromised] = [this.#chains, this.#records, this.#compromised];
    const { compromised: compromised_statements, removed: removed_approvals } = this.#attachments;
    return {
      ...{ valid: true, chains, records, created_at, since, compromised },
      ...{ compromised_statements, removed_approvals },
    };
  }

  #readManifest(value: Json): void {
    const isEarlier = isObject(value['manifest']) && !('generation' in value['manifest']);
    const members = isEarlier ? earlierManifestMembers : manifestMembers;
    const manifest = onlyMember(value, 'manifest', members);
    demand(manifest['format'] === format1 || manifest['format'] === format2, 'the format is another one');
    const { key_ids } = manifest as unknown as Manifest;
    for (const kid of key_ids) {
      demand(this.#keys.get(kid)?.purpose === 'attestation', `${kid} is no attestation key of the JWKS`);
    }
    this.#manifest = manifest as unknown as Manifest;
  }

  async #readChain(chain: Chain): Promise<void> {
    demand(!this.#isAttached, 'a chain stands behind what the records name');
    this.#closeChain();
    const { chain_id, first_sequence, last_sequence, previous_attestation_hash: previous } = chain;
    demand(chain_id > (this.#chain?.chain_id ?? ''), 'the chains are not in ascending order');
    this.#chain = chain;
    demand((previous === null) === (first_sequence === 1), 'only the first record of a chain follows none');
    const { archived } = chain;
    const follows = first_sequence === (archived?.through_sequence ?? 0) + 1;
    demand(first_sequence > (archived?.through_sequence ?? 0), 'the chain begins in its archive');
    demand(follows || this.#manifest?.since !== null, 'the chain lacks its beginning');
    demand(!follows || previous === (archived?.hash ?? null), 'the chain does not go on behind its archive');
    const isEmpty = archived !== undefined && last_sequence === archived.through_sequence;
    demand(first_sequence <= last_sequence || isEmpty, 'the chain ends before it begins');
    this.#head = { sequence: first_sequence - 1, hash: previous };
    this.#logged = chain.log_proof === undefined ? null : await includedHead(chain.log_proof);
    const { sequence = 0, chainId = '' } = this.#logged ?? {};
    const isOfChain = chainId === chain_id && sequence >= first_sequence && sequence <= last_sequence;
    demand(isOfChain || chain.log_proof === undefined, 'the proof of the log does not hold for the chain');
    this.#chains += 1;
  }

  async #readRecord(record: Json, manifest: Manifest): Promise<void> {
    const chain = this.#chain;
    demand(chain !== null, 'a record stands before the first chain');
    demand(!this.#isAttached, 'a record stands behind what the records name');
    const isForm2 = 'asserted' in record && manifest.format === format2;
    const members = isForm2 ? record2Members : 'refers_to' in record ? recordMembers : earlierRecordMembers;
    demand(hasMembers(record, members), 'the line is no record of this format');
    const { hash: own, signature, ...body } = record;
    const { signing_key_id: kid, timestamp } = record as { signing_key_id: string; timestamp: string };
    this.sequence = record['sequence'] as number;
    demand(record['chain_id'] === chain.chain_id, 'the record is of another chain');
    demand(this.sequence === this.#head.sequence + 1, 'the sequence has a hole or a repetition');
    demand(this.sequence <= chain.last_sequence, 'the chain goes on after its last record');
    demand(record['previous_attestation_hash'] === this.#head.hash, 'the link to the record before is wrong');
    const { resolution, refers_to: refersTo } = record;
    demand(refersTo === undefined || (refersTo === null) === (resolution === null), 'refers_to does not fit');
    const isFirst = this.sequence === chain.first_sequence;
    const follows = chain.archived?.through_sequence === this.sequence - 1;
    demand(
      !isFirst || follows || manifest.since === null || timestamp >= manifest.since,
      'the chain begins before since',
    );
    demand((await hashOf(canonical(body) ?? '')) === own, 'the hash does not match the record');
    const isLogged = this.#logged?.sequence !== this.sequence || this.#logged.hash === own;
    demand(isLogged, 'the log has another record here');
    const key = manifest.key_ids.includes(kid) ? this.#keys.get(kid) : undefined;
    demand(key !== undefined, 'the key is not one of the manifest');
    demand(
      key.nbf * 1_000 <= Date.parse(manifest.created_at) + nbfLeewayMs,
      'the key is newer than the export',
    );
    demand(await verifies(key, `agent-trust.attestation.v1:${own}`, signature), 'the signature is not valid');
    const unlike = manifest.format === format2 ? this.#attachments.name(body) : null;
    if (unlike !== null) throw new Fault(unlike);
    this.#head = { sequence: this.sequence, hash: own as string };
    this.#records += 1;
    if (key.isCompromised) this.#compromised += 1;
  }

  async #readAttachment(value: Json, { format, key_ids }: Manifest): Promise<void> {
    demand(format === format2, 'the line is none of this format');
    this.#closeChain();
    this.#isAttached = true;
    const fault = await this.#attachments.read(value, this.#keys, key_ids);
    if (fault !== null) throw new Fault(fault);
  }

  #readEnd(end: Json): void {
    this.#closeChain();
    demand(this.#attachments.areAllThere, 'a record names what is not there');
    const isRight = end['chains'] === this.#chains && end['records'] === this.#records;
    demand(isRight, 'the end counts other chains or records');
    this.#isEnded = true;
    const broken = (end['broken'] ?? []) as readonly { chain_id: string; sequence: number; fault: string }[];
    const [first] = broken;
    if (first !== undefined) {
      this.#broken = first;
      this.sequence = first.sequence;
      const count = broken.length + ((end['broken_unnamed'] as number | undefined) ?? 0);
      throw new Fault(`the service names ${count} chains that are not whole, the first for ${first.fault}`);
    }
    demand(!this.#hasStopped, 'a chain does not end with the record that its header names');
  }

  #closeChain(): void {
    if (this.#chain === null) return;
    const { last_sequence, last_hash } = this.#chain;
    if (this.#head.sequence < last_sequence) this.#hasStopped = true;
    else
      demand(this.#head.hash === last_hash, 'the chain does not end with the record that its header names');
  }
}

const nbfLeewayMs = 60_000;
const format1 = 'agent-trust.attestations.v1';
const format2 = 'agent-trust.attestations.v2';

/** `archived` stands only where an archive is, and `log_proof` where the log has something of the chain. */
const chainMembersOf = (chain: unknown): Readonly<Record<string, Check>> => ({
  ...(isObject(chain) && Object.hasOwn(chain, 'archived') ? archivedChainMembers : chainMembers),
  ...(isObject(chain) && Object.hasOwn(chain, 'log_proof') ? { log_proof: text } : {}),
});

/** `broken` stands only where a chain is, and `broken_unnamed` only where more are than are named. */
function endMembersOf(end: unknown): Readonly<Record<string, Check>> {
  if (!isObject(end) || !Object.hasOwn(end, 'broken')) return endMembers;
  return Object.hasOwn(end, 'broken_unnamed') ? longBrokenEndMembers : brokenEndMembers;
}

function onlyMember(value: Json, name: string, members: Readonly<Record<string, Check>>): Json {
  const member = value[name];
  const isRight = Object.keys(value).length === 1 && isObject(member) && hasMembers(member, members);
  demand(isRight, `the line is no ${name} of this format`);
  return member;
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new Fault('the line is not JSON');
  }
}
