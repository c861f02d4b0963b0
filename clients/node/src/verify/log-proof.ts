import { encode, fromBase64, isObject, toBase64Url } from './canonical.ts';
import { keysOf, verifies } from './keys.ts';
import { type NoteKey, readLogPolicy } from './log-policy.ts';
import { rootOf, sha256 } from './merkle.ts';

export const logProofFaults = {
  malformed: 'this is not a tlog-proof of the log of this service',
  unknown_log: 'the checkpoint is signed by no log that the policy names',
  forged: 'a signature of the checkpoint does not verify',
  not_witnessed: 'the checkpoint lacks the cosignatures that the policy asks for',
  not_included: 'the entry is not in the tree of the checkpoint',
} as const;

/** `head`: the record that the log has. Every record of its chain before it is covered, too. */
export type LogProofVerdict =
  | {
      readonly valid: true;
      readonly head: Head;
      readonly origin: string;
      readonly size: number;
      /** Names of the policy. */
      readonly witnesses: readonly string[];
      readonly untimely?: readonly string[];
    }
  | {
      readonly valid: false;
      readonly fault: keyof typeof logProofFaults;
      /** Names of the witnesses whose cosignatures do not count, because of their time. Absent: none. */
      readonly untimely?: readonly string[];
    };

export interface LogProofOptions {
  /** The JWK set of the service: no cosignature counts that is older than the log's key. Default: any age. */
  readonly jwks?: unknown;
  /** Unix milliseconds; a cosignature counts up to 5 minutes later. Default: now. */
  readonly nowMs?: number;
}

/** As far as the clock of a witness may be ahead. */
const witnessClockMsMax = 300_000;

interface Head {
  readonly chainId: string;
  readonly sequence: number;
  readonly hash: string;
}

type Bytes = Uint8Array<ArrayBuffer>;

/**
 * Whether a tlog-proof of `GET /v1/attestations/{id}/proof` holds, by a tlog-policy that names logs and
 * witnesses (docs/log.md). Throws TypeError for a policy with a mistake, or no JWK set. Compare `head`
 * with the record of that sequence in an export that verifies: the proof alone says nothing of records.
 */
export async function verifyLogProof(
  proof: string,
  policy: string,
  { jwks, nowMs = Date.now() }: LogProofOptions = {},
): Promise<LogProofVerdict> {
  const { logs, witnesses, isQuorum } = await readLogPolicy(policy);
  const known = jwks === undefined ? [] : [...(await keysOf(jwks)).values()];
  const read = readProof(proof);
  if (read === null) return invalid('malformed');
  const { head, text, origin, size, signatures } = read;
  const signed = async (key: NoteKey): Promise<readonly Bytes[] | 'forged'> => {
    const own = signatures.filter(({ name, keyId }) => name === key.name && keyId === key.keyId);
    const good = await Promise.all(own.map(({ bytes }) => isSigned(key, text, bytes)));
    return good.every(Boolean) ? own.map(({ bytes }) => bytes) : 'forged';
  };
  const ofLog = logs.filter(({ name }) => name === origin);
  const byLog = await Promise.all(ofLog.map(signed));
  const cosigned = await Promise.all(
    [...witnesses].map(async ([name, key]) => [name, await signed(key)] as const),
  );
  if ([...byLog, ...cosigned.map(([, state]) => state)].includes('forged')) return invalid('forged');
  const signers = ofLog.filter((_, at) => byLog[at]?.length !== 0);
  if (signers.length === 0) return invalid('unknown_log');
  const begins = known
    .filter(
      ({ purpose, x }) => purpose === 'log' && signers.some((key) => toBase64Url(key.x) === toBase64Url(x)),
    )
    .map(({ nbf }) => nbf * 1_000);
  const fromMs = begins.length === 0 ? 0 : Math.min(...begins);
  const isTimely = (bytes: Bytes) => timeOf(bytes) >= fromMs && timeOf(bytes) <= nowMs + witnessClockMsMax;
  const namesOf = (counts: boolean) =>
    cosigned.flatMap(([name, own]) =>
      own !== 'forged' && own.length > 0 && own.some(isTimely) === counts ? [name] : [],
    );
  const [names, untimely] = [namesOf(true), namesOf(false)];
  const others = untimely.length === 0 ? {} : { untimely };
  if (!isQuorum(new Set(names))) return { ...invalid('not_witnessed'), ...others };
  if (!(await isIncluded(read))) return { ...invalid('not_included'), ...others };
  return { valid: true, head, origin, size, witnesses: names, ...others };
}

/** Of a cosignature, in Unix milliseconds. */
const timeOf = (bytes: Bytes): number =>
  Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0)) * 1_000;

/**
 * What a proof says that the log has, if its path leads to the root of its own checkpoint; else null. Does
 * NOT verify who signed that checkpoint.
 */
export async function includedHead(proof: string): Promise<Head | null> {
  const read = readProof(proof);
  return read !== null && (await isIncluded(read)) ? read.head : null;
}

const invalid = (fault: keyof typeof logProofFaults): LogProofVerdict => ({ valid: false, fault });

async function isIncluded({ head, index, hashes, size, root }: ReadProof): Promise<boolean> {
  const entry = await sha256(encode(`agent-trust.log.v1\n${head.chainId}\n${head.sequence}\n${head.hash}\n`));
  if (index >= size) return false;
  const found = await rootOf(await sha256(Uint8Array.of(0), entry), index, size, hashes);
  return found !== null && toBase64Url(found) === toBase64Url(root);
}

/** Type 1 signs the text of the note, type 4 the time too (C2SP tlog-cosignature). */
async function isSigned(key: NoteKey, text: string, bytes: Bytes): Promise<boolean> {
  if (key.type === 1) return verifies(key, text, toBase64Url(bytes));
  if (bytes.length !== 72) return false;
  const atS = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0);
  if (atS === 0n || atS >> 63n !== 0n) return false;
  return verifies(key, `cosignature/v1\ntime ${atS}\n${text}`, toBase64Url(bytes.subarray(8)));
}

type ReadProof = NonNullable<ReturnType<typeof readProof>>;

const pathHashesMax = 63;
const signaturesMax = 64;

function readProof(proof: string) {
  const [top, text, lines, ...more] = partsOf(proof);
  if (top === undefined || text === undefined || lines === undefined || more.length > 0) return null;
  const [first, extra = '', indexLine = '', ...path] = top.split('\n');
  const [origin = '', sizeText = '', rootText = ''] = text.split('\n');
  const index = numberOf(/^index (\d+)$/.exec(indexLine)?.[1]);
  const size = numberOf(sizeText);
  const root = hashOf(rootText);
  const hashes = allOf(path.map(hashOf));
  const head = headOf(extra);
  const signatures = allOf(lines.split('\n').map(signatureOf));
  if (first !== 'c2sp.org/tlog-proof@v1' || head === null || index === null || size === null) return null;
  if (root === null || hashes === null || signatures === null || origin === '') return null;
  if (hashes.length > pathHashesMax || signatures.length > signaturesMax) return null;
  return { head, index, hashes, text, origin, size, root, signatures };
}

/** Null: one of them is. */
const allOf = <T>(values: readonly (T | null)[]): readonly T[] | null => {
  const found = values.flatMap((value) => (value === null ? [] : [value]));
  return found.length === values.length ? found : null;
};

/** What is before the first empty line; the text of the note with its last newline; its signatures. */
function partsOf(proof: string): string[] {
  const start = proof.indexOf('\n\n');
  const end = proof.lastIndexOf('\n\n');
  if (start < 0 || end <= start || !proof.endsWith('\n')) return [];
  return [proof.slice(0, start), proof.slice(start + 2, end + 1), proof.slice(end + 2, -1)];
}

function numberOf(text: string | undefined): number | null {
  const number = Number(text);
  return text !== undefined && /^(?:0|[1-9]\d{0,15})$/.test(text) && Number.isSafeInteger(number)
    ? number
    : null;
}

function hashOf(text: string): Bytes | null {
  const bytes = fromBase64(text);
  return bytes?.length === 32 ? bytes : null;
}

function headOf(extra: string): Head | null {
  const bytes = fromBase64(/^extra (\S+)$/.exec(extra)?.[1] ?? '!');
  if (bytes === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  const { chain_id: chainId, sequence, hash } = value;
  if (typeof chainId !== 'string' || chainId.includes('\n') || !Number.isSafeInteger(sequence)) return null;
  if (typeof hash !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(hash)) return null;
  return { chainId, sequence: sequence as number, hash };
}

function signatureOf(line: string) {
  const [, name, encoded = ''] = /^\u2014 ([^\s+]+) (\S+)$/.exec(line) ?? [];
  const bytes = fromBase64(encoded);
  if (name === undefined || bytes === null || bytes.length < 5) return null;
  const keyId = [...bytes.subarray(0, 4)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return { name, keyId, bytes: bytes.slice(4) };
}
