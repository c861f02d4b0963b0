import { assert, must } from '../errors/assert.ts';
import { nodeHash, type ReadNode, type TreeHash, treeHashBytes } from './merkle.ts';

/** C2SP tlog-tiles: hashes of one level of every eighth, 256 in a tile. */
export const tileWidth = 256;
const tileHeight = 8;
export const tileLevelMax = 63;

/** By number, from the left. Level 0 holds the hashes of entries. */
export interface TileName {
  readonly level: number;
  readonly number: number;
}

export const hashesIn = (tile: Uint8Array): number => tile.length / treeHashBytes;

const hashAt = (tile: Uint8Array, index: number): TreeHash =>
  tile.subarray(index * treeHashBytes, (index + 1) * treeHashBytes);

/** Of a tile, by `count * tileWidth + first`. */
type KnownHashes = Map<number, TreeHash>;

/** The hash over 2^n hashes of a tile. */
function subtreeHash(tile: Uint8Array, first: number, count: number, known: KnownHashes): TreeHash {
  if (count === 1) return hashAt(tile, first);
  const key = count * tileWidth + first;
  const before = known.get(key);
  if (before !== undefined) return before;
  const half = count / 2;
  const hash = nodeHash(subtreeHash(tile, first, half, known), subtreeHash(tile, first + half, half, known));
  known.set(key, hash);
  return hash;
}

/** Where the hash of a whole subtree is found. */
function placeOf(height: number, index: number) {
  const level = Math.floor(height / tileHeight);
  const count = 2 ** (height - level * tileHeight);
  const first = index * count;
  const number = Math.floor(first / tileWidth);
  return { level, number, first: first - number * tileWidth, count };
}

/** The tile that holds the subtree. */
export const tileOf = (height: number, index: number): TileName => {
  const { level, number } = placeOf(height, index);
  return { level, number };
};

/** Remembers what it has hashed: proofs of entries beside each other share most of their path. */
export function readFromTiles(tileAt: (name: TileName) => Uint8Array): ReadNode {
  const known = new WeakMap<Uint8Array, KnownHashes>();
  return (height, index) => {
    const { level, number, first, count } = placeOf(height, index);
    const tile = tileAt({ level, number });
    const hashes: KnownHashes = known.get(tile) ?? new Map();
    known.set(tile, hashes);
    return subtreeHash(tile, first, count, hashes);
  };
}

/** Hashes of the tile in a tree of this size: at most `tileWidth`, none for a tile after its end. */
export function widthOf({ level, number }: TileName, size: number): number {
  const hashes = Math.floor(size / tileWidth ** level) - number * tileWidth;
  return Math.min(Math.max(hashes, 0), tileWidth);
}

/** `<N>` of a path: groups of three digits, all but the last after an x. */
export function tileNumberPath(number: number): string {
  const digits = String(number);
  const padded = digits.padStart(Math.ceil(digits.length / 3) * 3, '0');
  const groups = padded.match(/\d{3}/g) ?? [];
  return groups.map((group, at) => (at === groups.length - 1 ? group : `x${group}`)).join('/');
}

/** Null for a path that `tileNumberPath` would not have written. */
export function parseTileNumber(path: string): number | null {
  const number = Number(path.replaceAll(/[x/]/g, ''));
  return Number.isSafeInteger(number) && tileNumberPath(number) === path ? number : null;
}

/** The tiles at the right edge of a tree, one for each level; an empty one where the last is full. */
export type Edge = readonly Uint8Array[];

export interface Grown {
  readonly edge: Edge;
  readonly size: number;
  /** Tiles as they are now, whole and partial ones. */
  readonly changed: readonly (TileName & { readonly hashes: Uint8Array })[];
}

/** The edge of a tree of `size` entries with these after them. */
export function grow(edge: Edge, size: number, leaves: readonly TreeHash[]): Grown {
  for (const [level, tile] of edge.entries())
    assert(
      hashesIn(tile) === Math.floor(size / tileWidth ** level) % tileWidth,
      'an edge has the hashes of its tree, level by level',
    );
  const next: Uint8Array[] = [];
  const changed: Grown['changed'][number][] = [];
  let added = leaves;
  for (let level = 0; added.length > 0 || level < edge.length; level++) {
    const hashes = Buffer.concat([edge[level] ?? Buffer.alloc(0), ...added]);
    assert(hashes.length % treeHashBytes === 0, 'a tile holds whole hashes');
    const first = Math.floor(Math.floor(size / tileWidth ** level) / tileWidth);
    const whole = Math.floor(hashesIn(hashes) / tileWidth);
    const tileBytes = tileWidth * treeHashBytes;
    const tiles = Array.from({ length: whole }, (_, at) =>
      hashes.subarray(at * tileBytes, (at + 1) * tileBytes),
    );
    const rest = Buffer.from(hashes.subarray(whole * tileBytes));
    if (added.length > 0) {
      changed.push(...tiles.map((tile, at) => ({ level, number: first + at, hashes: tile })));
      if (rest.length > 0) changed.push({ level, number: first + whole, hashes: rest });
    }
    next.push(rest);
    added = tiles.map((tile) => subtreeHash(tile, 0, tileWidth, new Map()));
  }
  return { edge: next, size: size + leaves.length, changed };
}

/** The hashes at the right edge, which make the root of its tree. */
export const readFromEdge = (edge: Edge): ReadNode =>
  readFromTiles(({ level }) => must(edge[level], 'a subtree at the edge is of one of its tiles'));
