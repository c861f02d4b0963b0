import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/** The map of ARCHITECTURE.md, held against the code: who may import whom, and that nothing lies about unread. */
const root = fileURLToPath(new URL('../../', import.meta.url));
const sourceFolders = ['shared', 'control-plane', 'sidecar', 'deploy', 'bench'];

const pureRooms = [
  'model',
  'errors',
  'crypto',
  'quota',
  'decision',
  'wire',
  'attestation',
  'audit',
  'verification',
  'pii',
];
const mayImport: Readonly<Record<string, readonly string[]>> = {
  model: [],
  errors: ['model'],
  crypto: ['model', 'errors'],
  quota: ['model', 'errors'],
  pii: ['model', 'errors'],
  decision: ['model', 'errors', 'quota'],
  wire: ['model', 'errors', 'crypto', 'quota', 'decision'],
  attestation: ['model', 'errors', 'crypto', 'wire'],
  audit: ['model', 'errors', 'crypto', 'wire', 'attestation'],
  verification: ['model', 'errors', 'crypto', 'decision', 'wire'],
};
/** Composition roots: they read the environment, choose adapters and end the process. Workers are started by path. */
const roots = [
  /^control-plane\/main\.ts$/,
  /^sidecar\/main\.ts$/,
  /^deploy\/.*\.ts$/,
  /^bench\/(?:run|peers\/.*)\.ts$/,
  /worker\.ts$/,
];
/** What programs of others import. */
const published = /^shared\/client\/.*\.ts$/;
const pureBuiltins = /^node:(?:crypto|url|zlib|buffer|module)$/;

interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

function sourcesBelow(folder: string): Source[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => {
      const path = relative(root, join(entry.parentPath, entry.name));
      const text = readFileSync(join(root, path), 'utf8');
      return { path, text, imports: importsOf(path, text) };
    });
}

/** Paths from the project's root for own files, specifiers for packages. Type imports count: they are arrows too. */
function importsOf(path: string, text: string): string[] {
  const specifiers = [
    ...text.matchAll(/^\s*(?:import|export)\b[^'"]*?from\s+['"]([^'"]+)['"]/gm),
    ...text.matchAll(/^\s*import\s+['"]([^'"]+)['"]/gm),
    ...text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g),
    ...text.matchAll(/new URL\(\s*['"](\.[^'"]+\.ts)['"]\s*,\s*import\.meta\.url/g),
  ].map((match) => match[1] ?? '');
  return specifiers.map((specifier) =>
    specifier.startsWith('.') ? relative(root, resolve(root, dirname(path), specifier)) : specifier,
  );
}

const sources = sourceFolders.flatMap(sourcesBelow);
const arrows = sources.flatMap(({ path, imports }) => imports.map((to) => ({ from: path, to })));
const show = (found: readonly { from: string; to: string }[]) =>
  found.map(({ from, to }) => `${from} -> ${to}`);
const roomOf = (path: string) => path.split('/')[1] ?? '';
const isPure = (path: string) => path.startsWith('shared/') && pureRooms.includes(roomOf(path));

describe('architecture', () => {
  it('finds the sources it speaks about', () => {
    expect(sources.length).toBeGreaterThan(20);
    expect(arrows.length).toBeGreaterThan(50);
  });

  it('lets the pure rooms import inward only', () => {
    const wrong = arrows.filter(({ from, to }) => {
      if (!isPure(from)) return false;
      if (to.startsWith('shared/')) {
        return roomOf(to) !== roomOf(from) && !(mayImport[roomOf(from)] ?? []).includes(roomOf(to));
      }
      return /^(?:control-plane|sidecar|deploy|bench)\//.test(to);
    });
    expect(show(wrong)).toEqual([]);
  });

  it('keeps the pure rooms free of clocks, chance and I/O', () => {
    const wrong = sources
      .filter(({ path }) => isPure(path))
      .flatMap(({ path, text, imports }) => [
        ...imports
          .filter((to) => to.startsWith('node:') && !pureBuiltins.test(to))
          .map((to) => `${path}: ${to}`),
        ...imports
          .filter((to) => to === 'node:crypto' && roomOf(path) !== 'crypto')
          .map((to) => `${path}: ${to} outside shared/crypto`),
        ...[
          ...text.matchAll(
            /\b(?:Date\.now|performance\.now|Math\.random|setTimeout|setInterval|await |async )/g,
          ),
        ]
          .filter((match) => !isInComment(text, match.index))
          .map((match) => `${path}: ${match[0]}`),
      ]);
    expect(wrong).toEqual([]);
  });

  it('keeps shared free of the programs, and the programs free of each other', () => {
    const wrong = arrows.filter(
      ({ from, to }) =>
        (from.startsWith('shared/') && /^(?:control-plane|sidecar|deploy|bench)\//.test(to)) ||
        (from.startsWith('control-plane/') && to.startsWith('sidecar/')) ||
        (from.startsWith('sidecar/') && to.startsWith('control-plane/')),
    );
    expect(show(wrong)).toEqual([]);
  });

  it('lets only composition roots read the environment and end the process', () => {
    const wrong = sources
      .filter(({ path }) => !roots.some((pattern) => pattern.test(path)))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/\bprocess\.(?:env|exit|exitCode)\b/g)]
          .filter((match) => !isInComment(text, match.index))
          .map((match) => `${path}: ${match[0]}`),
      );
    expect(wrong).toEqual([]);
  });

  it('reaches every file from a composition root', () => {
    const byPath = new Map(sources.map((source) => [source.path, source]));
    const reached = new Set<string>();
    const visit = (path: string): void => {
      if (reached.has(path)) return;
      reached.add(path);
      for (const next of byPath.get(path)?.imports ?? []) visit(next);
    };
    for (const { path } of sources) {
      if (published.test(path) || roots.some((pattern) => pattern.test(path))) visit(path);
    }
    const unreached = sources.map(({ path }) => path).filter((path) => !reached.has(path));
    expect(unreached).toEqual([]);
  });
});

function isInComment(text: string, index: number): boolean {
  const lineStart = text.lastIndexOf('\n', index) + 1;
  return (
    /^\s*(?:\/\/|\*|\/\*)/.test(text.slice(lineStart, index)) || text.slice(lineStart, index).includes('// ')
  );
}
