import {
  isPossible,
  parseSignedCheckpoint,
  parseSize,
  type SignedCheckpoint,
} from '../../shared/log/checkpoint.ts';
import {
  proofHashesMax,
  type TreeHash,
  treeHashBytes,
  verifiesConsistency,
} from '../../shared/log/merkle.ts';
import { decodeBase64, isSignedBy, type NoteKey } from '../../shared/log/note.ts';

/** The body of `add-checkpoint` (C2SP tlog-witness). */
export interface Submission {
  readonly oldSize: number;
  readonly proof: readonly TreeHash[];
  readonly signed: SignedCheckpoint;
}

export function parseSubmission(body: string): Submission | null {
  const end = body.indexOf('\n\n');
  if (end < 0) return null;
  const [first = '', ...encoded] = body.slice(0, end).split('\n');
  const oldSize = first.startsWith('old ') ? parseSize(first.slice('old '.length)) : null;
  const proof = encoded.map(decodeBase64);
  const isHash = (hash: Uint8Array | null): hash is TreeHash => hash?.length === treeHashBytes;
  const signed = parseSignedCheckpoint(body.slice(end + 2));
  if (oldSize === null || signed === null || encoded.length > proofHashesMax || !proof.every(isHash))
    return null;
  return { oldSize, proof, signed };
}

export type Judgement =
  /** To be cosigned. */
  | { readonly kind: 'consistent' }
  /** The log shows a tree that does not go on from the one that was cosigned. */
  | { readonly kind: 'refused'; readonly status: 400 | 403 | 404 | 422; readonly reason: string }
  | { readonly kind: 'conflict'; readonly size: number };

const refused = (status: 400 | 403 | 404 | 422, reason: string): Judgement => ({
  kind: 'refused',
  status,
  reason,
});

/**
 * Whether a witness may cosign. `keys`: those that it trusts for the origin. `cosigned`: what it cosigned for
 * the origin last; null: nothing yet.
 */
export function judgeSubmission(
  { oldSize, proof, signed }: Submission,
  keys: readonly NoteKey[],
  cosigned: SignedCheckpoint | null,
): Judgement {
  const { checkpoint, note } = signed;
  if (keys.length === 0) return refused(404, 'this witness does not know the origin');
  const states = keys.map((key) => isSignedBy(note, key));
  if (states.includes('forged')) return refused(403, 'a signature of a trusted key does not verify');
  if (!states.includes('signed'))
    return refused(403, 'no key that this witness trusts for the origin has signed');
  if (oldSize > checkpoint.size) return refused(400, 'the old size is larger than that of the checkpoint');
  const known = cosigned?.checkpoint ?? null;
  if (oldSize !== (known?.size ?? 0)) return { kind: 'conflict', size: known?.size ?? 0 };
  if (!isPossible(checkpoint)) return refused(422, 'the empty tree has another root');
  if (known === null || known.size === 0)
    return proof.length === 0 ? { kind: 'consistent' } : refused(422, 'the empty tree needs no proof');
  return verifiesConsistency(known, checkpoint, proof)
    ? { kind: 'consistent' }
    : refused(422, 'the checkpoint is not consistent with the one that was cosigned last');
}
