/**
 * Room `shared/log`: the transparency log as others read it (C2SP): the tree of RFC 6962 here, its tiles in
 * `tiles.ts`, what is in it in `entry.ts`; signed notes (`note.ts`), checkpoints and their cosignatures
 * (`checkpoint.ts`, `cosignature.ts`), proofs (`proof.ts`) and policies of witnesses (`witness-policy.ts`).
 */

import { sha256Bytes } from '../crypto/content-hash.ts';
import { assert } from '../errors/assert.ts';

/** 32 bytes. */
export type TreeHash = Uint8Array;
export const treeHashBytes = 32;

/** Sizes are counted in doubles: a proof has at most one hash for each bit. */
export const proofHashesMax = 63;

const prefixed = (prefix: number, ...parts: readonly Uint8Array[]): TreeHash =>
  sha256Bytes(Buffer.concat([Buffer.of(prefix), ...parts]));

/** RFC 6962 §2.1. */
export const leafHash = (entry: Uint8Array): TreeHash => prefixed(0, entry);
export const nodeHash = (left: TreeHash, right: TreeHash): TreeHash => prefixed(1, left, right);
export const emptyRoot: TreeHash = sha256Bytes('');

export const areSame = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;

/** The largest power of two below `count`, which is at least 2. */
function splitAt(count: number): number {
  let power = 1;
  while (power * 2 < count) power *= 2;
  return power;
}

/** Entries `[from, to)`. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Both subtrees below the root of one that has at least two entries. */
export function halvesOf({ from, to }: Range): readonly [left: Range, right: Range] {
  const middle = from + splitAt(to - from);
  return [
    { from, to: middle },
    { from: middle, to },
  ];
}

/** The subtrees whose hashes prove that entry `index` is in the tree, from the leaf's sibling up. */
export function inclusionRanges(index: number, { from, to }: Range): Range[] {
  assert(index >= from, 'an entry is in the tree that it is proven in');
  assert(index < to, 'an entry is in the tree that it is proven in');
  if (to - from === 1) return [];
  const [left, right] = halvesOf({ from, to });
  return index < right.from
    ? [...inclusionRanges(index, left), right]
    : [...inclusionRanges(index, right), left];
}

/** The subtrees whose hashes prove that the tree of `size` begins with that of `oldSize` (from 1). */
export function consistencyRanges(oldSize: number, { from, to }: Range): Range[] {
  assert(oldSize > from, 'the tree before has an entry');
  assert(oldSize <= to, 'a tree does not shrink');
  if (oldSize === to) return from === 0 ? [] : [{ from, to }];
  const middle = from + splitAt(to - from);
  return oldSize <= middle
    ? [...consistencyRanges(oldSize, { from, to: middle }), { from: middle, to }]
    : [...consistencyRanges(oldSize, { from: middle, to }), { from, to: middle }];
}

/** The hash of entries `[index * 2^height, (index + 1) * 2^height)`. */
export type ReadNode = (height: number, index: number) => TreeHash;

/** The hash of a subtree as the functions above name them, of `read` for whole ones. */
export function rangeHash({ from, to }: Range, read: ReadNode): TreeHash {
  const count = to - from;
  assert(count >= 1, 'a subtree has an entry');
  const height = Math.log2(count);
  if (Number.isInteger(height) && from % count === 0) return read(height, from / count);
  const middle = from + splitAt(count);
  return nodeHash(rangeHash({ from, to: middle }, read), rangeHash({ from: middle, to }, read));
}

export const rootHash = (size: number, read: ReadNode): TreeHash =>
  size === 0 ? emptyRoot : rangeHash({ from: 0, to: size }, read);

/** The root that this inclusion proof leads to; null: it has not the hashes of such an entry. */
function includedRoot(
  leaf: TreeHash,
  index: number,
  { from, to }: Range,
  proof: readonly TreeHash[],
): TreeHash | null {
  const sibling = proof.at(-1);
  if (to - from === 1) return sibling === undefined ? leaf : null;
  if (sibling === undefined) return null;
  const middle = from + splitAt(to - from);
  const below = proof.slice(0, -1);
  const isLeft = index < middle;
  const own = includedRoot(leaf, index, isLeft ? { from, to: middle } : { from: middle, to }, below);
  if (own === null) return null;
  return isLeft ? nodeHash(own, sibling) : nodeHash(sibling, own);
}

/** A tree by its size and root. */
export interface Tree {
  readonly size: number;
  readonly root: TreeHash;
}

/** A leaf with the hashes that lead from it to the root. */
export interface Inclusion {
  readonly leaf: TreeHash;
  readonly index: number;
  readonly proof: readonly TreeHash[];
}

/** The root of the tree of that size that has the leaf there; null: no tree has it so. Never throws. */
export const rootOfInclusion = ({ leaf, index, proof }: Inclusion, size: number): TreeHash | null =>
  index >= size || proof.length > proofHashesMax
    ? null
    : includedRoot(leaf, index, { from: 0, to: size }, proof);

/** RFC 6962 §2.1.1. Never throws. */
export function verifiesInclusion(inclusion: Inclusion, { size, root }: Tree): boolean {
  const found = rootOfInclusion(inclusion, size);
  return found !== null && areSame(found, root);
}

type Roots = readonly [old: TreeHash, now: TreeHash];

function consistentRoots(old: Tree, { from, to }: Range, proof: readonly TreeHash[]): Roots | null {
  const last = proof.at(-1);
  if (old.size === to) {
    if (from === 0) return last === undefined ? [old.root, old.root] : null;
    return last === undefined || proof.length > 1 ? null : [last, last];
  }
  if (last === undefined) return null;
  const middle = from + splitAt(to - from);
  const below = proof.slice(0, -1);
  const isLeft = old.size <= middle;
  const roots = consistentRoots(old, isLeft ? { from, to: middle } : { from: middle, to }, below);
  if (roots === null) return null;
  const [before, now] = roots;
  return isLeft ? [before, nodeHash(now, last)] : [nodeHash(last, before), nodeHash(last, now)];
}

/** RFC 6962 §2.1.2. The empty tree needs no proof, and takes none. Never throws. */
export function verifiesConsistency(old: Tree, now: Tree, proof: readonly TreeHash[]): boolean {
  if (old.size > now.size || proof.length > proofHashesMax) return false;
  if (old.size === 0) return proof.length === 0 && areSame(old.root, emptyRoot);
  const roots = consistentRoots(old, { from: 0, to: now.size }, proof);
  return roots !== null && areSame(roots[0], old.root) && areSame(roots[1], now.root);
}
