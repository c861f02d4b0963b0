import { describe, expect, it } from 'vitest';
import { sha256Bytes, sha256Hex } from '../../../shared/crypto/content-hash.ts';
import { must } from '../../../shared/errors/assert.ts';
import { entryOf } from '../../../shared/log/entry.ts';
import {
  consistencyRanges,
  emptyRoot,
  inclusionRanges,
  leafHash,
  rangeHash,
  rootHash,
  type TreeHash,
  verifiesConsistency,
  verifiesInclusion,
} from '../../../shared/log/merkle.ts';
import {
  type Edge,
  grow,
  parseTileNumber,
  readFromEdge,
  readFromTiles,
  tileNumberPath,
  widthOf,
} from '../../../shared/log/tiles.ts';

const entry = (index: number): Uint8Array =>
  entryOf({ chainId: `pass_${index}`, sequence: index + 1, hash: 'sha256:'.padEnd(71, '0') });
const leaves = Array.from({ length: 70_001 }, (_, index) => leafHash(entry(index)));

/** MTH, PATH and SUBPROOF word by word as RFC 6962 §2.1 has them, over a list of leaves. */
const half = (count: number) => 2 ** Math.ceil(Math.log2(count) - 1);
const hash = (...parts: readonly Uint8Array[]) => sha256Bytes(Buffer.concat([Buffer.of(1), ...parts]));
function mth(list: readonly TreeHash[]): TreeHash {
  if (list.length === 0) return sha256Bytes('');
  if (list.length === 1) return must(list[0], 'one leaf');
  const k = half(list.length);
  return hash(mth(list.slice(0, k)), mth(list.slice(k)));
}
function path(m: number, list: readonly TreeHash[]): TreeHash[] {
  if (list.length === 1) return [];
  const k = half(list.length);
  return m < k
    ? [...path(m, list.slice(0, k)), mth(list.slice(k))]
    : [...path(m - k, list.slice(k)), mth(list.slice(0, k))];
}
function subproof(m: number, list: readonly TreeHash[], isWhole: boolean): TreeHash[] {
  if (m === list.length) return isWhole ? [] : [mth(list)];
  const k = half(list.length);
  return m <= k
    ? [...subproof(m, list.slice(0, k), isWhole), mth(list.slice(k))]
    : [...subproof(m - k, list.slice(k), false), mth(list.slice(0, k))];
}

/** A tree as the service grows it, in steps of these sizes. */
function grown(steps: readonly number[]) {
  let edge: Edge = [];
  let size = 0;
  const tiles = new Map<string, Uint8Array>();
  for (const step of steps) {
    const next = grow(edge, size, leaves.slice(size, size + step));
    for (const { level, number, hashes } of next.changed) tiles.set(`${level}/${number}`, hashes);
    ({ edge, size } = next);
  }
  const read = readFromTiles(({ level, number }) =>
    must(tiles.get(`${level}/${number}`), `no tile ${level}/${number}`),
  );
  return { edge, size, tiles, read };
}

describe('the tree of the log', () => {
  it('has the roots and proofs of RFC 6962, however it grew', () => {
    for (const steps of [
      [1],
      [2],
      [3],
      [5, 2],
      [8],
      [100, 155, 1],
      [256],
      [255, 2],
      [512, 1],
      [1, 1, 1, 600],
    ]) {
      const { edge, size, read } = grown(steps);
      const all = leaves.slice(0, size);
      const root = mth(all);
      expect(rootHash(size, read)).toEqual(root);
      expect(rootHash(size, readFromEdge(edge))).toEqual(root);
      for (const index of new Set(
        [0, 1, size >> 1, size - 2, size - 1].filter((each) => each >= 0 && each < size),
      )) {
        const proof = inclusionRanges(index, { from: 0, to: size }).map((range) => rangeHash(range, read));
        expect(proof).toEqual(path(index, all));
        const leaf = must(leaves[index], 'a leaf');
        expect(verifiesInclusion({ leaf, index, proof }, { size, root })).toBe(true);
        expect(verifiesInclusion({ leaf, index: index + 1, proof }, { size, root })).toBe(false);
        expect(verifiesInclusion({ leaf, index, proof: [...proof, leaf] }, { size, root })).toBe(false);
        expect(verifiesInclusion({ leaf: emptyRoot, index, proof }, { size, root })).toBe(false);
      }
      for (const old of new Set([1, size >> 1, size - 1, size].filter((each) => each > 0))) {
        const proof = consistencyRanges(old, { from: 0, to: size }).map((range) => rangeHash(range, read));
        expect(proof).toEqual(subproof(old, all, true));
        const before = { size: old, root: mth(all.slice(0, old)) };
        expect(verifiesConsistency(before, { size, root }, proof)).toBe(true);
        expect(verifiesConsistency({ ...before, root: emptyRoot }, { size, root }, proof)).toBe(false);
        expect(verifiesConsistency(before, { size, root: emptyRoot }, proof)).toBe(false);
        expect(verifiesConsistency(before, { size, root }, [...proof, root])).toBe(false);
      }
    }
  });

  it('is the same in one step and in many, over several levels of tiles', () => {
    const atOnce = grown([70_000]);
    const inSteps = grown([1, 255, 65_280, 4_000, 464]);
    expect(inSteps.size).toBe(70_000);
    const digests = ({ tiles }: typeof atOnce) =>
      Object.fromEntries([...tiles].map(([name, hashes]) => [name, sha256Hex(hashes)]));
    expect(digests(inSteps)).toEqual(digests(atOnce));
    // The widths that C2SP tlog-tiles gives as an example for this size.
    expect(widthOf({ level: 0, number: 273 }, 70_000)).toBe(112);
    expect(widthOf({ level: 1, number: 0 }, 70_000)).toBe(256);
    expect(widthOf({ level: 1, number: 1 }, 70_000)).toBe(17);
    expect(widthOf({ level: 2, number: 0 }, 70_000)).toBe(1);
    expect(widthOf({ level: 2, number: 1 }, 70_000)).toBe(0);
    expect(atOnce.tiles.get('0/273')).toHaveLength(112 * 32);
    expect(atOnce.tiles.get('2/0')).toHaveLength(32);
    expect(rootHash(70_000, atOnce.read)).toEqual(mth(leaves.slice(0, 70_000)));
  });

  it('names tiles as C2SP tlog-tiles does', () => {
    expect(tileNumberPath(1_234_067)).toBe('x001/x234/067');
    expect(tileNumberPath(0)).toBe('000');
    expect(parseTileNumber('x001/x234/067')).toBe(1_234_067);
    for (const wrong of ['', '1', '0000', 'x000/001', '001/x000', 'x001/234/067', '-01', '1e3'])
      expect(parseTileNumber(wrong), wrong).toBeNull();
  });

  it('takes no proof for the empty tree', () => {
    const now = { size: 1, root: must(leaves[0], 'a leaf') };
    expect(verifiesConsistency({ size: 0, root: emptyRoot }, now, [])).toBe(true);
    expect(verifiesConsistency({ size: 0, root: now.root }, now, [])).toBe(false);
    expect(verifiesConsistency({ size: 0, root: emptyRoot }, now, [emptyRoot])).toBe(false);
    expect(verifiesConsistency({ size: 2, root: emptyRoot }, now, [])).toBe(false);
  });
});
