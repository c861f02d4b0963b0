import { parseSignedCheckpoint, parseSize, type SignedCheckpoint } from './checkpoint.ts';
import { entryOf, type LoggedHead } from './entry.ts';
import { leafHash, proofHashesMax, type TreeHash, treeHashBytes, verifiesInclusion } from './merkle.ts';
import { decodeBase64, encodeBase64 } from './note.ts';
import { judgeNote, type OfflineClock, type Standing, type WitnessPolicy } from './witness-policy.ts';

/** C2SP tlog-proof: an entry is in the tree of a checkpoint. */
export interface LogProof {
  /** Which head the entry stands for: JSON in the `extra` line. The entry's hash makes it true. */
  readonly head: LoggedHead;
  readonly index: number;
  readonly hashes: readonly TreeHash[];
  /** With its signatures. */
  readonly checkpoint: string;
}

const firstLine = 'c2sp.org/tlog-proof@v1';

export const renderLogProof = ({ head, index, hashes, checkpoint }: LogProof): string =>
  [
    firstLine,
    `extra ${encodeBase64(Buffer.from(JSON.stringify(headJson(head))))}`,
    `index ${index}`,
    ...hashes.map(encodeBase64),
    '',
    checkpoint,
  ].join('\n');

const headJson = ({ chainId, sequence, hash }: LoggedHead) => ({ chain_id: chainId, sequence, hash });

/** Null: not a proof of this service's entries. */
export function parseLogProof(text: string): (LogProof & { readonly signed: SignedCheckpoint }) | null {
  const end = text.indexOf('\n\n');
  if (end < 0) return null;
  const [first, extra = '', indexLine = '', ...encoded] = text.slice(0, end).split('\n');
  const index = indexLine.startsWith('index ') ? parseSize(indexLine.slice(6)) : null;
  const head = extra.startsWith('extra ') ? parseHead(extra.slice(6)) : null;
  if (first !== firstLine || index === null || head === null || encoded.length > proofHashesMax) return null;
  const hashes = encoded.map(decodeBase64);
  const isHash = (hash: Uint8Array | null): hash is TreeHash => hash?.length === treeHashBytes;
  const checkpoint = text.slice(end + 2);
  const signed = parseSignedCheckpoint(checkpoint);
  if (!hashes.every(isHash) || signed === null) return null;
  return { head, index, hashes, checkpoint, signed };
}

function parseHead(encoded: string): LoggedHead | null {
  const bytes = decodeBase64(encoded);
  if (bytes === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString());
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { chain_id: chainId, sequence, hash } = value as Record<string, unknown>;
  if (typeof chainId !== 'string' || chainId === '' || chainId.includes('\n')) return null;
  if (typeof sequence !== 'number' || !Number.isSafeInteger(sequence) || sequence < 1) return null;
  if (typeof hash !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(hash)) return null;
  return { chainId, sequence, hash };
}

/**
 * Whether the entry is in the tree of the checkpoint that the proof shows. Who signed that checkpoint is
 * another question.
 */
const isIncluded = ({
  head,
  index,
  hashes,
  signed,
}: NonNullable<ReturnType<typeof parseLogProof>>): boolean =>
  verifiesInclusion({ leaf: leafHash(entryOf(head)), index, proof: hashes }, signed.checkpoint);

/** Faults of a proof, with their sentences. */
export const proofFaults = {
  not_a_proof: 'this is not a tlog-proof of this service',
  unknown_log: 'the checkpoint is signed by no log that the policy names',
  forged: 'a signature of the checkpoint does not verify',
  not_witnessed: 'the checkpoint lacks the cosignatures that the policy asks for',
  not_included: 'the entry is not in the tree of the checkpoint',
} as const;

export type ProofVerdict = Pick<Standing, 'untimely'> & ProofFound;

type ProofFound =
  | {
      readonly kind: 'valid';
      readonly head: LoggedHead;
      readonly size: number;
      readonly witnesses: readonly string[];
    }
  | { readonly kind: 'invalid'; readonly fault: keyof typeof proofFaults };

/**
 * What the policy, which names logs and witnesses, says of this proof. What it proves: `head` stood in the
 * log when the checkpoint was cosigned. Whether `head` is the head of a chain is for its records to show.
 * `clock`: as of `judgeNote`.
 */
export function verifyLogProof(
  text: string,
  policy: WitnessPolicy,
  clock: OfflineClock | null = null,
): ProofVerdict {
  const proof = parseLogProof(text);
  if (proof === null) return { kind: 'invalid', fault: 'not_a_proof' };
  const standing = judgeNote(policy, proof.signed.note, clock);
  const named = standing.untimely === undefined ? {} : { untimely: standing.untimely };
  const invalid = (fault: keyof typeof proofFaults): ProofVerdict => ({ kind: 'invalid', fault, ...named });
  if (standing.forged.length > 0) return invalid('forged');
  if (!standing.isLogSigned) return invalid('unknown_log');
  if (!standing.isWitnessed) return invalid('not_witnessed');
  if (!isIncluded(proof)) return invalid('not_included');
  const { size } = proof.signed.checkpoint;
  return { kind: 'valid', head: proof.head, size, witnesses: standing.witnesses, ...named };
}
