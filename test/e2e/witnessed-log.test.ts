import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { must } from '../../shared/errors/assert.ts';
import { renderVkey } from '../../shared/log/note.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { expectOnceWithin } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Program, type Programs } from '../support/programs/programs.ts';

/** Contract §9: a record is in a witnessed checkpoint within this. */
const witnessedMsMax = 15_000;

describe('a log with three witnesses as programs of their own, any two of them a quorum', () => {
  const folder = temporaryFolder();
  const policyFile = join(folder.path, 'log.policy');
  const names = ['w1', 'w2', 'w3'] as const;
  const witnesses = new Map<string, Program>();
  const ports = new Map<string, number>();
  let programs: Programs;
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;

  const startWitness = async (name: string): Promise<string> => {
    const args = ['--name', `${name}.example`, '--logs', policyFile, '--data-dir', join(folder.path, name)];
    const program = programs.start(['witness', ...args, '--port', String(ports.get(name))], {});
    witnesses.set(name, program);
    await program.waitFor(/witness is listening/);
    return must(/w\d\.example\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+/.exec(program.output()), 'it shows its vkey')[0];
  };

  beforeAll(async () => {
    programs = await bundledPrograms();
    database = await testDatabase();
    world = await installation(programs, { databaseUrl: database.url });
    // Witnesses show their keys before there is a log, and learn of it afterwards.
    const { publicKey } = chooseEd25519().signer(Buffer.alloc(32, 1));
    writeFileSync(policyFile, `log ${renderVkey('example.com/log', 1, publicKey)}\nquorum none\n`);
    let lines = '';
    for (const name of names) {
      ports.set(name, await freePort());
      lines += `witness ${name} ${await startWitness(name)} http://127.0.0.1:${ports.get(name)}/\n`;
    }
    lines += 'group two 2 w1 w2 w3\nquorum two\n';
    writeFileSync(policyFile, lines);
    controlPlane = await world.startControlPlane({ LOG_WITNESSES: policyFile });
    const { keys } = (await call(`${controlPlane.origin}/.well-known/jwks.json`)).body;
    const { x } = must(
      keys.find(({ purpose }: { purpose: string }) => purpose === 'log'),
      'a key of the log',
    );
    const origin = `${new URL(controlPlane.origin).host}/log`;
    writeFileSync(policyFile, `log ${renderVkey(origin, 1, Buffer.from(x, 'base64url'))}\n${lines}`);
    for (const name of names) {
      await must(witnesses.get(name), 'it runs').stop();
      await startWitness(name);
    }
    sidecar = await world.startSidecar();
  });
  afterAll(async () => {
    await world?.close();
    for (const program of witnesses.values()) await program.stop('SIGKILL');
    await database?.drop();
    folder.remove();
  });

  it('proves records in time while decisions go on and witnesses die, and the export holds to the proof', async () => {
    const gateId = await world.createGate();
    const { token } = await world.issuePassport();
    const check = () =>
      call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
    await until(async () => (await check()).status === 200, { what: 'the sidecar knows the gate' });
    let isOver = false;
    const ids: { readonly id: string; readonly atMs: number }[] = [];
    const deciding = (async () => {
      while (!isOver) {
        const { status, body } = await check();
        // A busy machine may send one away; it comes again.
        expect([200, 503]).toContain(status);
        if (status === 200) ids.push({ id: body.attestation_id, atMs: performance.now() });
        await pause(5);
      }
    })();
    const proofOf = (id: string) => world.api('GET', `/attestations/${id}/proof`);
    let proof = '';
    for (let sample = 0; sample < 3; sample++) {
      // One is away at a time, and comes back.
      const name = must(names[sample % names.length], 'a witness');
      await must(witnesses.get(name), 'it runs').stop('SIGKILL');
      const known = ids.length;
      const stalledMs = measureStall();
      await until(() => ids.length > known, { what: 'a decision' });
      const { id, atMs } = must(ids.at(-1), 'a decision');
      await until(async () => (await proofOf(id)).status === 200, { what: `a proof of ${id}` });
      const proved = { ms: performance.now() - atMs, stalledMs: stalledMs() };
      expectOnceWithin(witnessedMsMax, 'a record is proved', proved);
      proof = String((await proofOf(id)).body);
      await startWitness(name);
    }
    isOver = true;
    await deciding;

    const file = (name: string, text: string) => {
      writeFileSync(join(folder.path, name), text);
      return join(folder.path, name);
    };
    const { body: jwks } = await call(`${controlPlane.origin}/.well-known/jwks.json`);
    const exported = String((await world.api('GET', '/attestations/export')).body);
    const verify = async (records: string) => {
      const args = ['--jwks', file('jwks.json', JSON.stringify(jwks)), '--log-policy', policyFile];
      const program = programs.start(
        [
          ...['attestations', 'verify', file('records.jsonl', records), ...args],
          ...['--proof', file('record.tlog-proof', proof)],
        ],
        {},
      );
      return { code: await program.exited, output: program.output() };
    };
    const good = await verify(exported);
    expect(good).toMatchObject({
      code: 0,
      output: expect.stringMatching(/is in the log, whose tree of \d+ entries is cosigned by w\d, w\d/),
    });
    // The same chain without its end, as the holder of the keys could write it: it verifies by itself.
    const forged = proof.replace(/^extra .*$/m, (line) => {
      const head = JSON.parse(Buffer.from(line.slice(6), 'base64').toString());
      return `extra ${Buffer.from(JSON.stringify({ ...head, sequence: head.sequence + 1 })).toString('base64')}`;
    });
    proof = forged;
    expect(await verify(exported)).toMatchObject({
      code: 5,
      output: expect.stringContaining('not in the tree'),
    });
  });
});
