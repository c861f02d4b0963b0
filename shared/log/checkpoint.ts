import { assert } from '../errors/assert.ts';
import { areSame, emptyRoot, type Tree, treeHashBytes } from './merkle.ts';
import { decodeBase64, encodeBase64, type Note, parseNote } from './note.ts';

/** C2SP tlog-checkpoint. */
export interface Checkpoint extends Tree {
  readonly origin: string;
}

export function checkpointText({ origin, size, root }: Checkpoint): string {
  assert(!origin.includes('\n'), 'an origin is one line');
  assert(Number.isSafeInteger(size), 'a size is counted exactly');
  assert(root.length === treeHashBytes, 'a root is one hash');
  return `${origin}\n${size}\n${encodeBase64(root)}\n`;
}

/** A size as these formats write it; null: not one, or more than is counted here. */
export function parseSize(text: string): number | null {
  const size = Number(text);
  return /^(?:0|[1-9]\d{0,15})$/.test(text) && Number.isSafeInteger(size) ? size : null;
}

/** Extension lines are read over: witnesses sign them and say nothing of them. */
export function parseCheckpointText(text: string): Checkpoint | null {
  const [origin = '', sizeText = '', rootText = '', ...more] = text.split('\n');
  const size = parseSize(sizeText);
  const root = decodeBase64(rootText);
  if (origin === '' || size === null || root?.length !== treeHashBytes) return null;
  if (more.pop() !== '' || more.includes('')) return null;
  return { origin, size, root };
}

export interface SignedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly note: Note;
}

export function parseSignedCheckpoint(text: string): SignedCheckpoint | null {
  const note = parseNote(text);
  const checkpoint = note === null ? null : parseCheckpointText(note.text);
  return note === null || checkpoint === null ? null : { checkpoint, note };
}

/** The empty tree has one root. */
export const isPossible = ({ size, root }: Tree): boolean => size > 0 || areSame(root, emptyRoot);
