import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { freePort } from '../support/base/free-port.ts';
import { until } from '../support/base/until.ts';
import { sharedService } from '../support/run/shared-services.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { root } from './support/installed-client.ts';
import { pythonEnv } from './support/python.ts';

let api: Api;
let beside: TestSidecar;
let python: string;
let gate: string;
let jwt: string;
beforeAll(async () => {
  python = await sharedService('python3 with FastAPI and Flask');
  api = await startOwnApi();
  beside = await startTestSidecar({ api });
  gate = (await api.createGate({ constraints: { spend_limits: { daily_usd: 1_000 } } })).gate_id;
  jwt = (await api.issuePassport({ permissions: ['orders:create'] })).jwt;
  await beside.caughtUp();
});
afterAll(async () => {
  await beside.close();
  beside.removeFolder();
  await api.close();
});

interface Program {
  readonly port: number;
  readonly child: ChildProcess;
  readonly printed: () => string;
}
const programs: ChildProcess[] = [];
afterEach(async () => {
  for (const child of programs.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

async function start(kind: string, more: Record<string, string> = {}): Promise<Program> {
  const port = await freePort();
  const child = spawn(python, [join(root, 'test/clients/support/settling_app.py'), kind], {
    env: pythonEnv({
      KEY: api.adminKey,
      SIDECAR_URL: beside.origin,
      GATE_ID: gate,
      PORT: String(port),
      ...more,
    }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  programs.push(child);
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  const isUp = async () => {
    if (child.exitCode !== null) throw new Error(printed);
    return fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    );
  };
  await until(isUp, { what: `${kind} on its port`, timeoutMs: 60_000 });
  return { port, child, printed: () => printed };
}

const ask = ({ port }: Program, what: string) =>
  fetch(`http://127.0.0.1:${port}/${what}`, { headers: { 'x-agent-passport': jwt } });
const newest = async (): Promise<string> => {
  const { body } = await api.call({ url: `/v1/holds?gate_id=${gate}` });
  return body.items[0]?.attestation_id ?? '';
};
const outcomeOf = async (id: string) => (await api.call({ url: `/v1/attestations/${id}/outcome` })).body;
const settled = async (id: string) => {
  await until(
    async () => {
      await applyReported(api.deps);
      return (await outcomeOf(id)).outcome != null;
    },
    { what: `the outcome of ${id}` },
  );
  return outcomeOf(id);
};
/** Of a request whose answer does not name its PERMIT. */
const settledBehind = async (before: string) => {
  await until(async () => (await newest()) !== before, { what: 'the hold' });
  return settled(await newest());
};
/** Asks, and leaves once the answer has begun. */
async function leave({ port }: Program): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let heard = '';
  socket.setEncoding('latin1').on('data', (text) => {
    heard += text;
  });
  socket.write(`GET /hangs HTTP/1.1\r\nhost: a\r\nx-agent-passport: ${jwt}\r\n\r\n`);
  const permit = () => /x-permit: (\S+)/i.exec(heard)?.[1];
  await until(() => permit() !== undefined, { what: 'the begin of an answer' });
  socket.destroy();
  return permit() ?? '';
}

const served = { outcome: 'served', counts_usd: 1.5, hold: { status: 'settled' } };
const failed = { outcome: 'failed', counts_usd: 0, hold: { status: 'released' } };

describe.each(['asgi', 'wsgi'])('a guard for Python with `settle`: %s', (kind) => {
  it('reports what was answered', async () => {
    const program = await start(kind);
    const permitOf = async (what: string) => (await ask(program, what)).headers.get('x-permit') ?? '';
    expect(await settled(await permitOf('ok'))).toMatchObject(served);
    expect(await settled(await permitOf('plain'))).toMatchObject({ outcome: 'served', counts_usd: 5 });
    expect(await settled(await permitOf('fails'))).toMatchObject(failed);
    const before = await newest();
    expect((await ask(program, 'throws')).status).toBe(500);
    expect(await settledBehind(before)).toMatchObject(failed);
    expect(program.printed()).not.toContain('not reported');
  });

  it.each(['served', 'failed'] as const)(
    'reports %s of a client that left, where it says so',
    async (left) => {
      const program = await start(kind, { CLIENT_LEFT: left });
      const counts = left === 'served' ? 5 : 0;
      expect(await settled(await leave(program))).toMatchObject({ outcome: left, counts_usd: counts });
    },
  );

  it('reports no amount that is none: its hold ends by itself', async () => {
    const program = await start(kind);
    const id = (await ask(program, 'odd')).headers.get('x-permit') ?? '';
    await until(() => program.printed().includes('which is no amount'), { what: 'the error' });
    await until(async () => (await newest()) === id, { what: 'the hold' });
    api.advance(61_000);
    await expireHolds(api.deps);
    expect(await outcomeOf(id)).toMatchObject({ outcome: null, counts_usd: 5, hold: { status: 'expired' } });
  });

  it('counts once what a program that died has not reported', async () => {
    const program = await start(kind);
    const before = await newest();
    const gone = once(program.child, 'exit');
    await expect(ask(program, 'dies')).rejects.toThrow();
    await gone;
    await until(async () => (await newest()) !== before, { what: 'the hold' });
    const id = await newest();
    expect(await outcomeOf(id)).toMatchObject({ outcome: null, counts_usd: 5, hold: { status: 'open' } });
    api.advance(61_000);
    await expireHolds(api.deps);
    expect(await outcomeOf(id)).toMatchObject({ outcome: null, counts_usd: 5, hold: { status: 'expired' } });
  });
});

it('an ASGI server that stops waits for its reports', async () => {
  const program = await start('asgi');
  const id = (await ask(program, 'ok')).headers.get('x-permit') ?? '';
  program.child.kill('SIGTERM');
  await once(program.child, 'exit');
  expect(await settled(id)).toMatchObject(served);
});
