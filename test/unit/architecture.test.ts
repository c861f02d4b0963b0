import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { advisoryLockSeeds, advisoryLocks } from '../../control-plane/storage/locks.ts';
import { must } from '../../shared/errors/assert.ts';
import { importsOf, type Source, sourcesBelow } from '../support/base/sources.ts';

/**
 * The map of ARCHITECTURE.md, held against the code: who may import whom, and that nothing lies about unread.
 */
const sourceFolders = ['shared', 'control-plane', 'sidecar', 'mcp-proxy', 'cli', 'deploy', 'bench'];

/** None imports another. */
const programs = ['control-plane/', 'sidecar/', 'mcp-proxy/', 'cli/'];
const outsideShared = /^(?:control-plane|sidecar|mcp-proxy|cli|clients|deploy|bench)\//;

const pureRooms = [
  'model',
  'errors',
  'crypto',
  'quota',
  'condition',
  'decision',
  'wire',
  'attestation',
  'audit',
  'log',
  'replay',
  'verification',
  'pii',
];
const mayImport: Readonly<Record<string, readonly string[]>> = {
  model: [],
  errors: ['model'],
  crypto: ['model', 'errors'],
  quota: ['model', 'errors'],
  pii: ['model', 'errors'],
  condition: ['model', 'errors'],
  decision: ['model', 'errors', 'quota', 'condition'],
  wire: ['model', 'errors', 'crypto', 'quota', 'condition', 'decision'],
  attestation: ['model', 'errors', 'crypto', 'wire', 'log'],
  audit: ['model', 'errors', 'crypto', 'wire', 'attestation'],
  log: ['model', 'errors', 'crypto'],
  replay: ['model', 'errors', 'quota', 'condition', 'decision', 'wire'],
  verification: ['model', 'errors', 'crypto', 'condition', 'decision', 'wire'],
};
/** The levels of the control plane, lowest first, by the names of ARCHITECTURE.md. */
const controlPlane: Readonly<Record<string, readonly (readonly string[])[]>> = {
  store: [['base'], ['storage']],
  service: [
    ...[['http', 'master-key', 'outbox'], ['signing'], ['events'], ['history'], ['sync'], ['audit']],
    ['creation'],
  ],
  domain: [
    ['api-keys', 'discovery', 'issuers', 'sessions', 'signing-keys', 'templates', 'webhooks'],
    ['accounts', 'book', 'oauth', 'passports'],
    ['federation', 'quota'],
    ['attestations', 'channels'],
    ['people'],
    ['log', 'mcp-pins', 'oidc', 'passkeys', 'statistics'],
    ['approvals', 'outcomes', 'wallets'],
  ],
  policy: [['gates'], ['backtests', 'catalogs', 'decisions', 'receipts', 'standing-approvals']],
  surface: [
    ['authzen', 'console', 'operations', 'recovery'],
    ['openapi'],
    ['tools'],
    ['admission'],
    ['deps.ts', 'record-projections.ts', 'sealed-places.ts'],
    ['app.ts'],
    ['main.ts'],
  ],
};
/**
 * The rooms of each program, lowest level first: a room imports itself and rooms of lower levels, and rooms
 * of one level do not import each other. So there is no cycle among them. The files of a program's own
 * folder, which put the rooms together, each count as a room.
 */
const levelsOf: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'control-plane': Object.values(controlPlane).flat(),
  sidecar: [
    ['attest', 'http', 'quota', 'replica', 'verify'],
    ['decide'],
    ['settle'],
    ['intake', 'operations'],
    ['app.ts'],
    ['startup'],
    ['embedded', 'threads'],
    ['main.ts'],
  ],
  cli: [['base'], ['verify'], ['apply', 'doctor', 'evidence', 'witness'], ['admin']],
  bench: [['harness'], ['peers'], ['rows'], ['compare-rows.ts'], ['compare.ts'], ['capacity.ts'], ['run.ts']],
  'test/support': [['base'], ['run'], ['data', 'peers'], ['database'], ['service'], ['programs'], ['cases']],
};
/**
 * Composition roots: they read the environment, choose adapters and end the process. Workers are started by
 * path.
 */
const roots = [
  /^control-plane\/main\.ts$/,
  /^sidecar\/main\.ts$/,
  /^deploy\/.*\.ts$/,
  /^bench\/(?:run|capacity|peers\/.*)\.ts$/,
  /worker\.ts$/,
];
/** What programs of others import, and what the console does. */
const published =
  /^(?:sidecar\/embedded\/start-embedded|shared\/condition\/fact-at|shared\/model\/condition-examples)\.ts$/;
const pureBuiltins = /^node:(?:crypto|url|zlib|buffer|module)$/;

interface Arrow {
  readonly from: string;
  readonly to: string;
}

const sources = sourceFolders.flatMap(sourcesBelow);
const arrowsOf = ({ path, imports }: Pick<Source, 'path' | 'imports'>): Arrow[] =>
  imports.map((to) => ({ from: path, to }));
const arrows = sources.flatMap(arrowsOf);
/** What tests share. No composition root reaches it; knip finds what no test uses. */
const support = sourcesBelow('test/support');
const show = (found: readonly Arrow[]) => found.map(({ from, to }) => `${from} -> ${to}`);
const architecture = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8');
const roomOf = (path: string) => path.split('/')[1] ?? '';
/** The room of a file in that program; null: it is a file of another one. */
const roomIn = (program: string, path: string): string | null =>
  path.startsWith(`${program}/`) ? (path.slice(program.length + 1).split('/')[0] ?? '') : null;

const levelOf = (program: string, room: string): number =>
  (levelsOf[program] ?? []).findIndex((rooms) => rooms.includes(room));

/**
 * Arrows within a program that do not lead to a lower level, each with the file, what it imports and the two
 * levels.
 */
const upwardImports = (all: readonly Arrow[]): string[] =>
  all.flatMap(({ from, to }) => {
    const program = Object.keys(levelsOf).find((each) => from.startsWith(`${each}/`)) ?? '';
    const [above, below] = [roomIn(program, from), roomIn(program, to)];
    if (above === null || below === null || above === below) return [];
    const [levelAbove, levelBelow] = [levelOf(program, above), levelOf(program, below)];
    if (levelBelow < levelAbove) return [];
    return `${from} imports ${to}, but ${below} (level ${levelBelow}) is not below ${above} (level ${levelAbove})`;
  });

/**
 * Arrows that are left when a file without an arrow in or out is taken away, again and again: those of
 * circles, and those that lead from one circle to another. Type imports count.
 */
function circlesAmong(all: readonly Arrow[]): readonly Arrow[] {
  const sources = new Set(all.map(({ from }) => from));
  const targets = new Set(all.map(({ to }) => to));
  const left = all.filter(({ from, to }) => targets.has(from) && sources.has(to));
  return left.length === all.length ? left : circlesAmong(left);
}

const isPure = (path: string) => path.startsWith('shared/') && pureRooms.includes(roomOf(path));

describe('architecture', () => {
  it('finds the sources that it checks', () => {
    expect(sources.length).toBeGreaterThan(20);
    expect(arrows.length).toBeGreaterThan(50);
  });

  it('lets the pure rooms import inward only', () => {
    const wrong = arrows.filter(({ from, to }) => {
      if (!isPure(from)) return false;
      if (to.startsWith('shared/')) {
        return roomOf(to) !== roomOf(from) && !(mayImport[roomOf(from)] ?? []).includes(roomOf(to));
      }
      return outsideShared.test(to);
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
        (from.startsWith('shared/') && outsideShared.test(to)) ||
        programs.some(
          (own) => from.startsWith(own) && programs.some((other) => other !== own && to.startsWith(other)),
        ),
    );
    expect(show(wrong)).toEqual([]);
  });

  it.each(Object.entries(levelsOf))('places each room of %s on one level', (program, levels) => {
    const rooms = new Set([...sources, ...support].map(({ path }) => roomIn(program, path)));
    rooms.delete(null);
    expect(levels.flat().sort()).toEqual([...rooms].sort());
  });

  it('shows the layers of the control plane, and the levels of the sidecar, as ARCHITECTURE.md does', () => {
    const rows = [...architecture.matchAll(/^\| ([^|]+) \| ([^|]+) \|(?: [^|]+ \|)?$/gm)];
    const named = (cells: string) =>
      [...cells.matchAll(/`([^`]+)`|(<)/g)].map(([, room, below]) => room ?? below);
    for (const [layer, levels] of Object.entries(controlPlane)) {
      const row = must(
        rows.find(([, name]) => name === layer),
        `ARCHITECTURE.md has a row for ${layer}`,
      );
      const rooms = levels.map((level) => level.join(' ')).filter((level) => !level.includes('.ts'));
      expect(named(row[2] ?? '').join(' ')).toBe(rooms.join(' < '));
    }
    const first = rows.findIndex(([, rooms]) => rooms === '`attest` `http` `quota` `replica` `verify`');
    const sidecar = levelsOf['sidecar'] ?? [];
    expect(rows.slice(first, first + sidecar.length).map(([, rooms]) => named(rooms ?? ''))).toEqual(sidecar);
  });

  it('finds what each room is in its main file, or in ARCHITECTURE.md', () => {
    const rooms = ['shared', ...Object.keys(levelsOf)]
      .filter((program) => program !== 'bench' && program !== 'test/support')
      .flatMap((program) => sources.filter(({ path }) => path.startsWith(`${program}/`)))
      .map(({ path }) => /^[^/]+\/[^/]+(?=\/)/.exec(path)?.[0] ?? '')
      .filter((room) => room !== '');
    const headers = sources.flatMap(({ path, text }) => {
      const [header = '', room = ''] = /^\/\*\*\s+(?:\* )?Room `([^`]+)`: [\s\S]*?\*\//.exec(text) ?? [];
      return room === '' ? [] : [{ path, room, header }];
    });
    for (const { path, room, header } of headers) {
      expect(path.startsWith(`${room}/`), `${path} describes ${room}`).toBe(true);
      const files = [...header.matchAll(/`([\w-]+\.ts)`/g)].map(([, file]) => `${room}/${file}`);
      expect(files.filter((file) => !sources.some((source) => source.path === file))).toEqual([]);
    }
    const all = [...new Set([...rooms, 'mcp-proxy'])].sort();
    const described = headers.map(({ room }) => room);
    const whereThingsAre = architecture.slice(architecture.indexOf('## Where things are'));
    const listed = all.filter((room) => whereThingsAre.includes(`| \`${room}\` |`));
    expect([...described, ...listed].sort()).toEqual(all);
  });

  it('lets the rooms of a program import rooms of lower levels only', () => {
    expect(upwardImports([...arrows, ...support.flatMap(arrowsOf)])).toEqual([]);
  });

  it('lets what tests share import no test, and nothing of one folder of tests', () => {
    const wrong = support
      .flatMap(arrowsOf)
      .filter(({ to }) => /^test\/(?!support\/|vectors\/|lanes\.ts$)/.test(to));
    expect(show(wrong)).toEqual([]);
  });

  it('shows the rooms of test/support as CONTRIBUTING.md does', () => {
    const table = readFileSync(new URL('../../CONTRIBUTING.md', import.meta.url), 'utf8');
    const named = [...table.matchAll(/^\| `([\w` ]+)` \| [^|]+ \|$/gm)].map(([, rooms]) =>
      rooms?.split('` `'),
    );
    const own = must(levelsOf['test/support'], 'test/support has levels').flat();
    expect(named.flat().filter((room) => own.includes(room ?? ''))).toEqual(own);
  });

  it.each([
    [
      'upwards',
      'control-plane/storage/made-up.ts',
      '../http/caller.ts',
      'http (level 2) is not below storage (level 1)',
    ],
    [
      'sideways',
      'control-plane/master-key/made-up.ts',
      '../http/caller.ts',
      'http (level 2) is not below master-key (level 2)',
    ],
    [
      'to the program',
      'control-plane/base/made-up.ts',
      '../deps.ts',
      'deps.ts (level 22) is not below base (level 0)',
    ],
    [
      'upwards in a sidecar',
      'sidecar/quota/made-up.ts',
      '../decide/check.ts',
      'decide (level 1) is not below quota (level 0)',
    ],
  ])('finds a made-up import that leads %s, a type import too', (_way, path, specifier, why) => {
    const imports = importsOf(path, `import type { MadeUp } from '${specifier}';`);
    expect(upwardImports(arrowsOf({ path, imports }))).toEqual([`${path} imports ${imports[0]}, but ${why}`]);
  });

  it('lets no files import each other in a circle', () => {
    const beside = [...support, ...['console/src', 'clients/node/src'].flatMap(sourcesBelow)];
    expect(show(circlesAmong([...arrows, ...beside.flatMap(arrowsOf)]))).toEqual([]);
  });

  it('finds a circle of three files, and not what leads to it or from it', () => {
    const circle = [
      { from: 'a.ts', to: 'b.ts' },
      { from: 'b.ts', to: 'c.ts' },
      { from: 'c.ts', to: 'a.ts' },
    ];
    const around = [
      { from: 'main.ts', to: 'a.ts' },
      { from: 'c.ts', to: 'leaf.ts' },
    ];
    expect(circlesAmong([...around, ...circle])).toEqual(circle);
  });

  it('names the advisory locks of the database in one place, each with a number of its own', () => {
    const users = sources.filter(({ text }) => /\bpg_(?:try_)?advisory_/.test(text));
    expect(users.length).toBeGreaterThan(3);
    const elsewhere = users.flatMap(({ path, text }) =>
      [...text.matchAll(/\bpg_(?:try_)?advisory_.*/g)]
        .filter(([call]) => !/\$\{advisoryLock(?:s|Seeds)\.\w+\}\)/.test(call))
        .map(([call]) => `${path}: ${call}`),
    );
    expect(elsewhere).toEqual([]);
    const numbers = [...Object.values(advisoryLocks), ...Object.values(advisoryLockSeeds)];
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  it('lets the console import the client, the nouns and packages that run in browsers', () => {
    const own = sourcesBelow('console/src');
    expect(own.length).toBeGreaterThan(30);
    const allowed =
      /^(?:console\/src\/|clients\/node\/src\/|shared\/model\/|react(?:-dom)?(?:\/|$)|@tanstack\/react-|@simplewebauthn\/browser$)/;
    const wrong = own.flatMap(arrowsOf).filter(({ to }) => !allowed.test(to));
    expect(show(wrong)).toEqual([]);
    const intoConsole = arrows.filter(({ to }) => to.startsWith('console/'));
    expect(show(intoConsole)).toEqual([]);
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
