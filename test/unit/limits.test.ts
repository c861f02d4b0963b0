import { describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { type Source, sourcesBelow } from '../support/base/sources.ts';

const sharedFile = 'shared/model/limits.ts';
const sources = ['shared', 'control-plane', 'sidecar', 'mcp-proxy', 'cli'].flatMap(sourcesBelow);

/** `shared` is one reader, the relations at the foot of the file included; so is each room of a program. */
const readerOf = (path: string) =>
  path.startsWith('shared/') ? 'shared' : path.split('/').slice(0, 2).join('/');

/** Not `shared`, and no file of a program itself, which several rooms lead to. */
const isRoom = (reader: string) => reader.includes('/') && !reader.endsWith('.ts');

/** By entry of the shared limits, who reads it. */
function readersOf(all: readonly Pick<Source, 'path' | 'text'>[]): ReadonlyMap<string, ReadonlySet<string>> {
  const readers = new Map<string, Set<string>>();
  for (const { path, text } of all) {
    const code = text.replaceAll(/\/\*.*?\*\/|\/\/[^\n]*/gs, '');
    const destructured = [...code.matchAll(/\{([^}]*)\} = limits;/g)].flatMap(([, names = '']) =>
      names.split(',').map((name) => name.split(':')[0]?.trim() ?? ''),
    );
    const read = [...code.matchAll(/\blimits\.(\w+)/g)].map(([, name = '']) => name);
    for (const name of [...destructured, ...read])
      readers.set(name, (readers.get(name) ?? new Set()).add(readerOf(path)));
  }
  return readers;
}

/** Entries of the shared limits that a single room reads. Entries below one comment belong together. */
function readByOneRoom(all: readonly Pick<Source, 'path' | 'text'>[]): string[] {
  const { text } = must(
    all.find(({ path }) => path === sharedFile),
    'the shared limits are among the sources',
  );
  const readers = readersOf(all);
  const groups = text
    .split(/\n(?= {2}\/\*\*)/)
    .slice(1)
    .map((group) => [...group.matchAll(/^ {2}(\w+):/gm)].map(([, name = '']) => name));
  return groups.flatMap((names) => {
    const rooms = new Set(names.flatMap((name) => [...(readers.get(name) ?? [])]));
    const [room = '', ...others] = rooms;
    return others.length > 0 || !isRoom(room) ? [] : [`${names.join(', ')}: ${room}`];
  });
}

describe('the shared limits', () => {
  it('hold no bound of a single room', () => {
    expect(readByOneRoom(sources)).toEqual([]);
  });
});
