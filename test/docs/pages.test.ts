import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addAgentTrust, type InstalledClient, installClient } from '../clients/support/installed-client.ts';
import { freePort } from '../support/base/free-port.ts';
import { readPage, type ShellBlock } from '../support/base/pages.ts';
import { type PagePorts, type Pasted, paste, readersFolder, type Shell } from '../support/programs/pasted.ts';
import { bundledPrograms, type Program } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const paths = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
const pages = paths.map(readPage).filter(({ blocks }) => blocks.length > 0);
const readme = readPage('README.md').blocks.filter(({ notRun }) => notRun === null);
/** Of the tour what other pages build on: up to the first decision. */
const tourBegin = readme.slice(0, 1 + readme.findIndex(({ text }) => text.startsWith('check() {')));

/**
 * More marks than these mean that pages drift away from what is tested. Those of `docs/operate` install
 * things: most of them are run by tests of their own.
 */
const notRunMax = 29;

describe('the commands of the pages', () => {
  it('are found, and few of them cannot be run, each with its reason', () => {
    const blocks = pages.flatMap((page) => page.blocks);
    const reasons = blocks.flatMap(({ notRun }) => notRun ?? []);
    expect(blocks.length - reasons.length).toBeGreaterThan(35);
    expect(reasons.length).toBeLessThanOrEqual(notRunMax);
    for (const reason of reasons) expect(reason.length).toBeGreaterThan(20);
  });

  it('hold nothing that has to be replaced, or is the author’s own', () => {
    for (const { path, blocks } of pages) {
      for (const { text, notRun, line } of blocks) {
        if (notRun !== null) continue;
        expect(text, `${path}:${line}`).not.toMatch(
          /\b(?:gate|pass|appr|att|key)_[0-9a-z]{26}\b|\beyJ|…|<[A-Z_]+>|\{[a-z_]+\}/,
        );
      }
    }
  });

  it('hold no comment, which zsh does not know at its prompt', () => {
    for (const { path, blocks } of pages)
      for (const { text, line } of blocks) expect(text, `${path}:${line}`).not.toMatch(/(?:^|\s)#\s/m);
  });
});

describe('pasted beside a service that runs', () => {
  let reader: InstalledClient;
  let ports: PagePorts;
  let service: Program;
  let env: Readonly<Record<string, string>>;

  beforeAll(async () => {
    reader = await installClient(['express', 'fastify', 'hono', '@hono/node-server']);
    await addAgentTrust(reader.folder);
    for (const name of readdirSync(join(root, 'examples')))
      copyFileSync(join(root, 'examples', name), join(reader.folder, name));
    await readersFolder(reader.folder);
    ports = { controlPlane: await freePort(), sidecar: await freePort(), own: await freePort() };
    const python = await sharedService('python3 with FastAPI and Flask');
    env = { PYTHONPATH: join(root, 'clients/python'), PATH_OF_PYTHON: python };
    service = (await bundledPrograms()).start(['start'], {
      PORT: String(ports.controlPlane),
      SIDECAR_PORT: String(ports.sidecar),
      DATA_DIR: join(reader.folder, '.data'),
      FORWARD_AUTH_HEADERS: 'X-Original-Method,X-Original-URI',
      SMTP_URL: 'smtp://127.0.0.1:9',
      SMTP_FROM: 'approvals@example.com',
    });
    await service.waitFor(/agent-trust is ready/);
  });
  afterAll(async () => {
    await service?.stop();
    reader?.remove();
  });

  const run = async (script: string, shell: Shell): Promise<Pasted> => {
    const options = { shell, folder: reader.folder, ports, env };
    let ended = await paste(script, options);
    // The answer to a reader whose machine is as busy as one that runs all tests: the service asks for
    // another try.
    for (let tries = 1; tries < 5 && isTooBusy(ended); tries++) ended = await paste(script, options);
    return ended;
  };

  it.each([
    ['bash', 'the first time'],
    ['zsh', 'again'],
  ] as const)('the tour of the README: %s, %s', async (shell, _time) => {
    const ended = await run(readme.map(({ text }) => `${text}\n`).join(''), shell);
    expect(ended.stderr).toBe('');
    // The last command of the tour finds the tampered record, which the shell's exit code repeats.
    expect(ended.code, ended.stdout).toBe(5);
    const lines = ended.stdout.trim().split('\n');
    const answers = lines.slice(0, -2).map((line: string) => JSON.parse(line));
    expect(answers).toMatchObject([
      { gate_id: expect.stringMatching(/^gate_/), status: 'active' },
      { passport_id: expect.stringMatching(/^pass_/), status: 'active' },
      { decision: 'PERMIT' },
      { decision: 'BLOCK', reason: 'spend_limit_exceeded', limit: 50, requested: 50.01 },
      { constraints: { spend_limits: { daily_usd: 60 }, approvals: { above_usd: 20 } } },
      { status: 'pending', amount_usd: 30 },
      { status: 'approved', note: 'known supplier' },
      { decision: 'PERMIT' },
      { decision: 'BLOCK', reason: 'spend_limit_exceeded', limit: 60, used: 30, requested: 50 },
      { status: 'revoked', propagation: { sidecars: 1, acknowledged: 1 } },
      { decision: 'BLOCK', reason: 'passport_revoked' },
    ]);
    expect(lines.at(-2)).toMatch(
      /^OK: \d+ records in \d+ chains?\. Every hash, link and signature verifies\.$/,
    );
    expect(lines.at(-1)).toMatch(/^NOT OK: line \d+, chain pass_/);
  });

  const others = pages.filter(
    ({ path, blocks }) => path !== 'README.md' && blocks.some(({ notRun }) => notRun === null),
  );
  const shells: readonly Shell[] = ['bash', 'zsh'];
  const cases = others.flatMap(({ path }, place) => {
    // Each shell gets half of the pages: what differs are quotes and globs.
    const shell = shells[place % 2] ?? 'bash';
    return [[path, shell] as const];
  });

  // Pages for operators come last: they declare a key compromised, which ends what others show.
  const isForOperators = ([path]: (typeof cases)[number]) => path.startsWith('docs/operate/');
  const inOrder = [...cases.filter((each) => !isForOperators(each)), ...cases.filter(isForOperators)];

  it.each(inOrder)('%s, in %s', async (path, shell) => {
    const { blocks, needs } = readPage(path);
    const wanted = blocks.filter(({ notRun }) => notRun === null);
    const before = needs === null ? [] : needs === 'README.md' ? tourBegin : readPage(needs).blocks;
    const script = [
      'set -e -o pipefail',
      'python3() { "$PATH_OF_PYTHON" "$@"; }',
      // A reader sees that a service listens before they paste the next block.
      'curl() { command curl --retry 20 --retry-connrefused --retry-delay 1 "$@"; }',
      ...before.filter(({ notRun }) => notRun === null).map(({ text }) => text),
      ...wanted.flatMap(({ text }, place) => [`echo "== ${place}"`, text, 'echo']),
      'echo "== end"',
    ].join('\n');
    const ended = await run(`${script}\n`, shell);
    expect(ended.stdout, ended.stderr).toContain('== end');
    expect(ended.code, ended.stderr).toBe(0);
    for (const [place, block] of wanted.entries()) expectAnswer(path, block, answerOf(ended.stdout, place));
  });
});

const answerOf = (stdout: string, place: number): string =>
  (stdout.split(`== ${place}\n`)[1] ?? '').split(/^== (?:\d+|end)$/m)[0] ?? '';

/** What the block printed is no error of the service, and has the members that the page shows. */
function expectAnswer(path: string, { line, shown }: ShellBlock, answer: string): void {
  const where = `${path}:${line} answered ${answer}`;
  expect(answer, where).not.toMatch(/\{"error":|HTTP\/1\.1 (?:4|5)\d\d/);
  for (const name of shown) expect(answer, where).toContain(`"${name}":`);
}

const isTooBusy = ({ stdout, stderr }: Pasted) =>
  /"(?:quota_unavailable|overloaded)"/.test(`${stdout}${stderr}`);
