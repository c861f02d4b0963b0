import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeStoredZip } from '../../cli/evidence/stored-zip.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { must } from '../../shared/errors/assert.ts';
import { renderVkey } from '../../shared/log/note.ts';
import { minuteMs, secondMs } from '../../shared/model/time.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { startBrowser } from '../support/programs/browser.ts';
import { violations } from '../support/programs/console.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Program, type Programs } from '../support/programs/programs.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';

const run = promisify(execFile);
/** With its exit code, and what it said. */
const ran = (program: string, args: readonly string[]) =>
  run(program, args, { env: {}, cwd: '/' }).then(
    ({ stdout, stderr }) => ({ code: 0, said: stdout + stderr }),
    ({ code, stdout, stderr }) => ({ code, said: `${stdout}${stderr}` }),
  );

/** A name that an agent may have, and that a page must not run. */
const hostile = `<img src=x onerror="document.title='ran'"><script>document.title='ran'</script> \u200bאבג`;

describe('a pack of the programs as they are shipped', () => {
  const folder = temporaryFolder();
  const policyFile = join(folder.path, 'log.policy');
  let programs: Programs;
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;
  let witness: Program;
  let python: string;
  let since: string;
  let until_: string;

  beforeAll(async () => {
    python = await findDebianProgram('python3');
    programs = await bundledPrograms();
    database = await testDatabase();
    world = await installation(programs, { databaseUrl: database.url });
    const port = String(await freePort());
    const startWitness = async () => {
      const args = ['--name', 'w1.example', '--logs', policyFile, '--data-dir', join(folder.path, 'w1')];
      witness = programs.start(['witness', ...args, '--port', port], {});
      await witness.waitFor(/witness is listening/);
      return must(/w1\.example\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+/.exec(witness.output()), 'it shows its vkey')[0];
    };
    // It shows its key before there is a log, and learns of it afterwards.
    const { publicKey } = chooseEd25519().signer(Buffer.alloc(32, 1));
    writeFileSync(policyFile, `log ${renderVkey('example.com/log', 1, publicKey)}\nquorum none\n`);
    const rules = `witness w1 ${await startWitness()} http://127.0.0.1:${port}/\nquorum w1\n`;
    writeFileSync(policyFile, rules);
    controlPlane = await world.startControlPlane({ LOG_WITNESSES: policyFile });
    const { keys } = (await call(`${controlPlane.origin}/.well-known/jwks.json`)).body;
    const { x } = must(
      keys.find(({ purpose }: { purpose: string }) => purpose === 'log'),
      'a key of the log',
    );
    const origin = `${new URL(controlPlane.origin).host}/log`;
    writeFileSync(policyFile, `log ${renderVkey(origin, 1, Buffer.from(x, 'base64url'))}\n${rules}`);
    await witness.stop();
    await startWitness();
    sidecar = await world.startSidecar();
  });
  afterAll(async () => {
    await world?.close();
    await witness?.stop('SIGKILL');
    await database?.drop();
    folder.remove();
  });

  async function pack(name: string, more: readonly string[] = []) {
    const path = join(folder.path, name);
    const args = ['--since', since, '--until', until_, '--log-policy', policyFile, ...more];
    const program = programs.start(['evidence', 'pack', path, ...args], {
      ...{ AGENT_TRUST_URL: controlPlane.origin, AGENT_TRUST_API_KEY: world.adminKey },
    });
    return { code: await program.exited, said: program.output(), path };
  }
  let unpacked: string;

  it('is unpacked and verified offline with nothing but what is in it', async () => {
    const gate = await world.createGate({ constraints: { spend_limits: { per_transaction_usd: 20 } } });
    const { token } = await world.issuePassport({ agent_name: hostile });
    // Times of records are of a sidecar's clock, which may be behind this one.
    since = new Date(Date.now() - minuteMs).toISOString();
    const check = async (amount: number) => {
      const request = { permission_key: 'orders:create', amount };
      const ask = () =>
        call(`${sidecar.origin}/v1/gates/${gate}/check`, {
          ...{ key: world.adminKey, body: { passport: token, request } },
        });
      // The sidecar learns of the gate after the control plane.
      return (await untilAnswer(ask, ({ status }) => status === 200, { what: 'a decision' })).body;
    };
    const ids: string[] = [];
    for (const amount of [5, 7.5, 50]) ids.push((await check(amount)).attestation_id);
    const proven = async (id: string) => (await world.api('GET', `/attestations/${id}/proof`)).status === 200;
    for (const id of ids) await until(() => proven(id), { what: `a proof of ${id}` });
    // The clock of the sidecar may be ahead as well, and a pack is of a period that is over.
    const endMs = Date.now() + secondMs;
    until_ = new Date(endMs).toISOString();
    await until(() => Date.now() > endMs, { what: 'the end of the period' });
    const made = await pack('pack.zip');
    expect(made, made.said).toMatchObject({ code: 0 });
    expect(made.said).toContain('unproven: 0');
    unpacked = join(mkdtempSync(join(folder.path, 'unpacked-')), 'evidence');
    await run(python, ['-m', 'zipfile', '-e', made.path, join(unpacked, '..')]);
    expect(readdirSync(unpacked).sort()).toEqual([
      ...['agent_trust', 'checkpoint', 'index.html', 'jwks.json', 'log.policy', 'pack.json', 'records.jsonl'],
      ...['verify.mjs', 'verify.py'],
    ]);
    const byNode = await ran(process.execPath, [join(unpacked, 'verify.mjs')]);
    expect(byNode, byNode.said).toMatchObject({ code: 0 });
    expect(byNode.said).toContain('cosigned by w1');
    expect(byNode.said).toContain('index.html says what these files say');
    const byPython = await ran(python, [join(unpacked, 'verify.py')]);
    expect(byPython, byPython.said).toMatchObject({ code: 0 });
    expect(byPython.said).toContain('cosigned by w1');
    expect(byPython.said).toContain('3 decided again alike');
    // Neither leaves anything behind.
    expect(readdirSync(join(unpacked, 'agent_trust'))).not.toContain('__pycache__');
    const page = readFileSync(join(unpacked, 'index.html'), 'utf8');
    expect(page).toContain('$12.50 spent');
    expect(page).toContain('&lt;script&gt;');
  });

  it('is found out by both verifiers where a byte was changed', async () => {
    const path = join(unpacked, 'records.jsonl');
    const records = readFileSync(path, 'utf8');
    writeFileSync(path, records.replace('"amount_micro_usd":5000000', '"amount_micro_usd":6000000'));
    for (const [program = '', verifier = ''] of [
      [process.execPath, 'verify.mjs'],
      [python, 'verify.py'],
    ]) {
      const found = await ran(program, [join(unpacked, verifier)]);
      expect(found, found.said).toMatchObject({
        code: 5,
        said: expect.stringContaining('NOT OK: records.jsonl, line'),
      });
    }
    writeFileSync(path, records);
    const policy = readFileSync(join(unpacked, 'log.policy'), 'utf8');
    const { publicKey } = chooseEd25519().signer(Buffer.alloc(32, 2));
    const stranger = `witness w1 ${renderVkey('w1.example', 4, publicKey)}`;
    writeFileSync(join(unpacked, 'log.policy'), policy.replace(/^witness w1 \S+/m, stranger));
    for (const [program = '', verifier = ''] of [
      [process.execPath, 'verify.mjs'],
      [python, 'verify.py'],
    ]) {
      const found = await ran(program, [join(unpacked, verifier)]);
      expect(found, found.said).toMatchObject({ code: 5, said: expect.stringContaining('cosignatures') });
    }
    writeFileSync(join(unpacked, 'log.policy'), policy);
    expect((await ran(process.execPath, [join(unpacked, 'verify.mjs')])).code).toBe(0);
  });

  it('has a page that runs nothing, fetches nothing, and that everybody can read', async () => {
    const browser: Browser = await startBrowser();
    try {
      for (const colorScheme of ['light', 'dark'] as const) {
        const context = await browser.newContext({ colorScheme, viewport: { width: 400, height: 800 } });
        const page = await context.newPage();
        const asked: string[] = [];
        const reported: string[] = [];
        page.on('request', (request) => asked.push(request.url()));
        page.on('console', (message) => reported.push(message.text()));
        page.on('pageerror', (error) => reported.push(error.message));
        const address = pathToFileURL(join(unpacked, 'index.html')).href;
        await page.goto(address);
        expect(await page.title()).toBe('Record of decisions about agents');
        expect([await page.locator('script, img').count(), asked, reported]).toEqual([0, [address], []]);
        expect(await page.locator('main').innerText()).toContain('<script>');
        expect(await violations(page)).toEqual([]);
        await context.close();
      }
    } finally {
      await browser.close();
    }
  });

  it('is not there where the command is killed, or the service goes away', async () => {
    const before = readdirSync(folder.path);
    const path = join(folder.path, 'never.zip');
    const args = ['--since', since, '--until', until_];
    const env = { AGENT_TRUST_URL: controlPlane.origin, AGENT_TRUST_API_KEY: world.adminKey };
    // Nothing answers it, so that it cannot be done before it is killed.
    process.kill(controlPlane.program.pid, 'SIGSTOP');
    const program = programs.start(['evidence', 'pack', path, ...args], env);
    // Once it has begun to write.
    await until(() => readdirSync(folder.path).length > before.length, { what: 'its folder' });
    expect(program.isRunning).toBe(true);
    await program.stop('SIGKILL');
    expect(readdirSync(folder.path)).not.toContain('never.zip');
    await controlPlane.stop('SIGKILL');
    const away = await pack('away.zip');
    expect(away, away.said).toMatchObject({ code: 1, said: expect.stringContaining('cannot be reached') });
    expect(readdirSync(folder.path)).not.toContain('away.zip');
  });
});

describe('an archive in which nothing is compressed', () => {
  it('is read by others, also where sizes and offsets need 64 bits', async () => {
    const python = await findDebianProgram('python3');
    const folder = temporaryFolder();
    const large = join(folder.path, 'large');
    writeFileSync(large, Buffer.alloc(300_000, 'large'));
    const entries = [
      { name: 'a/empty', content: Buffer.alloc(0) },
      { name: 'a/large', content: { path: large } },
      { name: 'b', content: Buffer.from('small') },
    ];
    try {
      for (const zip64From of [undefined, 1_000]) {
        const path = join(folder.path, `${zip64From}.zip`);
        const output = await open(path, 'w');
        await writeStoredZip(output, entries, zip64From);
        await output.close();
        const code =
          'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; ' +
          'print([(i.filename, i.file_size, i.date_time) for i in z.infolist()], z.read("b"))';
        const { stdout } = await run(python, ['-c', code, path]);
        expect(stdout.trim()).toBe(
          "[('a/empty', 0, (1980, 1, 1, 0, 0, 0)), ('a/large', 300000, (1980, 1, 1, 0, 0, 0)), " +
            "('b', 5, (1980, 1, 1, 0, 0, 0))] b'small'",
        );
      }
    } finally {
      folder.remove();
    }
  });
});
