import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { expectWithin, timeUntil } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { bundledPrograms, type Program, type Programs } from '../support/programs/programs.ts';

/**
 * `npm start` as a newcomer meets it: one command, nothing else installed. One folder for all tests, for each
 * new one takes a new PostgreSQL.
 */
describe('everything on one machine', () => {
  let programs: Programs;
  let folder: ReturnType<typeof temporaryFolder>;
  let ports: { readonly controlPlane: number; readonly sidecar: number };
  let program: Program | null = null;

  beforeAll(async () => {
    programs = await bundledPrograms();
    folder = temporaryFolder();
    ports = { controlPlane: await freePort(), sidecar: await freePort() };
  });
  afterAll(async () => {
    if (program?.isRunning) await program.stop('SIGKILL');
    await until(() => databaseProcesses() === 0, { what: 'the end of the embedded PostgreSQL' });
    folder.remove();
  });

  const dataDir = () => join(folder.path, 'data');

  /** The one of the test before, or where none runs a new one on its data. */
  async function running(): Promise<Program> {
    if (program?.isRunning) return program;
    program = programs.start(['start'], {
      PORT: String(ports.controlPlane),
      SIDECAR_PORT: String(ports.sidecar),
      DATA_DIR: dataDir(),
    });
    await program.waitFor(/agent-trust is ready/);
    return program;
  }

  /** Processes of PostgreSQL whose folder is in ours. */
  function databaseProcesses(): number {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .filter((pid) => {
        try {
          const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
          // Not the shells around them, which end a moment later.
          return commandLine.includes(folder.path) && !commandLine.startsWith('/bin/sh');
        } catch {
          return false;
        }
      }).length;
  }

  const api = (path: string, body?: unknown) =>
    call(`http://127.0.0.1:${ports.controlPlane}/v1${path}`, {
      key: readFileSync(join(dataDir(), 'admin-api-key'), 'utf8').trim(),
      ...(body === undefined ? {} : { body }),
    });

  it('says what it does while it starts, one line each with its time', async () => {
    const { stdout } = await running();
    const phases = [...stdout().matchAll(/^ *\d+\.\d s {2}(.+)$/gm)].map(([, what]) => what);
    expect(phases).toEqual([
      'starting the embedded PostgreSQL',
      'bringing the tables up to date',
      'starting the control plane',
      'starting the sidecar',
    ]);
    expect(stdout().trimStart()).toMatch(/^\d/);
  });

  it('prints lines that lead to a first PERMIT when they are pasted into a shell', async () => {
    const { stdout } = await running();
    const script = /^To paste into a shell[^\n]*:$(.*?)^Ctrl-C/ms.exec(stdout())?.[1] ?? '';
    // zsh knows no comments at its prompt.
    expect(script).not.toMatch(/^#/m);
    let isFirst = true;
    await expectWithin(1_000, 'the record is at the control plane', async () => {
      const printed = execFileSync('sh', ['-e'], { input: script, encoding: 'utf8' });
      if (isFirst) expect(printed).toContain('"items":[]');
      isFirst = false;
      expect(printed).toContain('"decision":"PERMIT"');
      const attestationId = /"attestation_id":"(att_[0-9a-z]{26})"/.exec(printed)?.[1];
      const isThere = async () => (await api(`/attestations/${attestationId}`)).status === 200;
      return timeUntil(isThere, 'the record');
    });
  });

  it('never prints the key, and keeps it for its owner only', async () => {
    const { output } = await running();
    const file = join(dataDir(), 'admin-api-key');
    const key = readFileSync(file, 'utf8').trim();
    expect(key).toMatch(/^at_live_[0-9A-Za-z]{36}$/);
    expect(output()).toContain(file);
    expect(output()).not.toContain(key);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it('stops on SIGTERM with exit code 0 and finds its data again', async () => {
    const first = await running();
    const gate = (await api('/gates', { name: 'kept', trust_level: 'L1' })).body.gate_id;
    expect(await first.stop('SIGTERM')).toBe(0);
    expect(databaseProcesses()).toBe(0);

    await running();
    expect((await api(`/gates/${gate}`)).body).toMatchObject({ gate_id: gate, name: 'kept' });
  });

  it('makes the person who opens its start link the first owner, with a session that no sidecar accepts', async () => {
    const first = await running();
    const origin = `http://127.0.0.1:${ports.controlPlane}`;
    // What is no terminal keeps what is written to it: there the path alone is printed.
    const file = /first owner +open the link in (\S+)/.exec(first.stdout())?.[1] ?? '';
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const link = readFileSync(file, 'utf8').trim();
    expect(link).toMatch(/\/console\/invitation\?first=1#token=[\w-]{43}$/);
    const token = new URL(link).hash.slice('#token='.length);
    expect(first.output()).not.toContain(token);
    const ours = { origin, 'x-agent-trust-console': '1' };
    const owner = { token, email: 'ada@example.com', name: 'Ada', password: 'the very first password' };
    const accepted = await call(`${origin}/v1/invitations/accept`, { headers: ours, body: owner });
    expect(accepted.body).toMatchObject({ user: { role: 'owner' }, account: { is_operator: true } });
    const cookie = accepted.headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';
    const { gate_id } = (await api('/gates', { name: 'kept', trust_level: 'L1' })).body;

    // Cookies know no ports, so a browser sends ours to the sidecar too.
    const sidecar = `http://127.0.0.1:${ports.sidecar}`;
    const asked = { headers: { ...ours, cookie }, body: { passport: '', request: {} } };
    expect((await call(`${sidecar}/v1/gates/${gate_id}/check`, asked)).status).toBe(401);

    await first.stop('SIGTERM');
    const second = await running();
    expect(second.stdout()).not.toContain('first owner');
    expect(existsSync(file)).toBe(false);
    const session = await call(`${origin}/v1/session`, { headers: { cookie } });
    expect(session.body.user.email).toBe('ada@example.com');
  });

  it('leaves nothing behind when it is killed, and starts again with its data', async () => {
    const first = await running();
    const gate = (await api('/gates', { name: 'kept', trust_level: 'L1' })).body.gate_id;
    await first.stop('SIGKILL');
    await until(() => databaseProcesses() === 0, { what: 'the end of the embedded PostgreSQL' });

    await running();
    expect((await api(`/gates/${gate}`)).status).toBe(200);
  });

  it('refuses a second process on the same data, naming the folder', async () => {
    await running();
    const second = programs.start(['start'], { PORT: '0', SIDECAR_PORT: '0', DATA_DIR: dataDir() });
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain(dataDir());
    expect((await api('/gates')).status).toBe(200);
  });

  it('reports every wrong setting at once and does not start', async () => {
    const wrong = programs.start(['start'], {
      PORT: 'eighty',
      SPOOL_FSYNC_MS: '-1',
      ADMIN_API_KEY: 'hunter2',
      DATA_DIR: join(folder.path, 'unused'),
    });
    expect(await wrong.exited).toBe(2);
    for (const name of ['PORT', 'SPOOL_FSYNC_MS', 'ADMIN_API_KEY']) expect(wrong.output()).toContain(name);
    expect(wrong.output()).not.toContain('hunter2');
    expect(existsSync(join(folder.path, 'unused'))).toBe(false);
  });
});
