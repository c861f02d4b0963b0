import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { parseSidecarSettings } from '../../shared/runtime/settings.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { openSpool } from '../../sidecar/attest/spool.ts';
import { nodeServer } from '../../sidecar/http/node-server.ts';
import { type RunningSidecar, startSidecar } from '../../sidecar/main.ts';
import { sidecarIdOf } from '../../sidecar/startup/identity.ts';
import { freePort } from '../support/base/free-port.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { inParts } from '../support/data/spooled-record.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';
import { earlierSegment } from '../vectors/earlier-spool.ts';

const extras = { logger: silentLogger };
const random = systemRandom();
const order = { permission_key: 'orders:create' };

describe('startSidecar', () => {
  const api = useApi(startOwnApi);
  let apiPort: number;
  let sidecarKey: string;
  let gateId: string;
  let jwt: string;
  let folder: ReturnType<typeof temporaryFolder>;
  const running: RunningSidecar[] = [];

  beforeAll(async () => {
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    apiPort = (api.app.server.address() as AddressInfo).port;
    sidecarKey = (await api.createKey({ scopes: ['sidecars:connect'] })).key;
    gateId = (await api.createGate()).gate_id;
    jwt = (await api.issuePassport()).jwt;
  });
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((sidecar) => sidecar.close()));
    folder.remove();
  });

  const settingsWith = (environment: Readonly<Record<string, string>>) =>
    parseSidecarSettings({
      DATA_DIR: folder.path,
      CONTROL_PLANE_URL: `http://127.0.0.1:${apiPort}`,
      SIDECAR_API_KEY: sidecarKey,
      LOG_LEVEL: 'silent',
      ...environment,
    });

  async function start(environment: Readonly<Record<string, string>> = {}) {
    const port = await freePort();
    const sidecar = await startSidecar(settingsWith({ SIDECAR_PORT: String(port), ...environment }), extras);
    running.push(sidecar);
    return sidecar;
  }

  const readyz = (port: number) => call(`http://127.0.0.1:${port}/readyz`);
  const isReady = (port: number) =>
    until(async () => (await readyz(port)).status === 200, { what: 'a ready sidecar' });
  const check = (port: number): Promise<Reply> =>
    call(`http://127.0.0.1:${port}/v1/gates/${gateId}/check`, {
      key: api.adminKey,
      body: { passport: jwt, request: order },
    });

  /** A fetch of its own connection each time, so that the kernel spreads them over the threads. */
  const checkMany = async (port: number, count: number): Promise<string[]> => {
    // As any client, again where the machine is too busy, or one of the threads is not ready yet.
    const decided = () =>
      untilAnswer(
        () => check(port),
        ({ status }) => status !== 503,
        { what: 'a decision' },
      );
    const replies = await Promise.all(Array.from({ length: count }, decided));
    expect(new Set(replies.map(({ body }) => body.decision))).toEqual(new Set(['PERMIT']));
    return replies.map(({ body }) => body.attestation_id);
  };
  const allStored = (ids: readonly string[]) =>
    until(
      async () => {
        const rows = await api.deps
          .sql`SELECT 1 FROM attestations WHERE attestation_id IN ${api.deps.sql([...ids])}`;
        return rows.length === ids.length;
      },
      { what: `${ids.length} records at the control plane` },
    );

  it('refuses a spool of a version before 0.2.0, and starts in the folder once that is gone', async () => {
    const epoch = join(folder.path, 'sidecar/0/spool', `00000001-${'a'.repeat(32)}`);
    mkdirSync(epoch, { recursive: true });
    writeFileSync(join(epoch, '0000000000000001.seg'), earlierSegment);
    await expect(start()).rejects.toThrow(
      new StartError(
        `${epoch}/0000000000000001.seg was written by a version before 0.2.0, which this version does not read. Start 0.2.0 with this DATA_DIR until it has shipped its spool (agent_trust_sidecar_spool_bytes is 0), stop it, and start this version again.`,
      ),
    );
    rmSync(epoch, { recursive: true });
    await isReady((await start()).port);
  });

  it('names fault and remedy if the folder belongs to another account than the key, and decides nothing', async () => {
    const { port } = await start();
    await isReady(port);
    await running.pop()?.close();
    const errors: unknown[] = [];
    const logger: Logger = {
      ...silentLogger,
      error: (fields, message) => void errors.push({ ...fields, message }),
      child: () => logger,
    };
    const other = await api.createAccount();
    const { key } = await api.createKey({ scopes: ['sidecars:connect'] }, other.key);
    const settings = settingsWith({ SIDECAR_PORT: String(await freePort()), SIDECAR_API_KEY: key });
    const sidecar = await startSidecar(settings, { logger });
    running.push(sidecar);
    await until(() => errors.length > 0, { what: 'it is refused' });
    const sentence = expect.stringMatching(/belongs to another account .* Set DATA_DIR /);
    expect(errors).toEqual([
      {
        folder: join(folder.path, 'sidecar', '0'),
        problem: expect.stringContaining('belongs to another account'),
        message: sentence,
      },
    ]);
    const { status, body } = await readyz(sidecar.port);
    expect(status).toBe(503);
    expect(body.control_plane.must_not_serve).toEqual(sentence);
    const error = { code: 'service_unavailable', message: sentence };
    expect(await check(sidecar.port)).toMatchObject({ status: 503, body: { error } });
  });

  it('serves, and leaves nothing behind when it is closed', async () => {
    const sidecar = await start();
    await isReady(sidecar.port);
    const ids = await checkMany(sidecar.port, 3);
    await sidecar.close();
    // All is shipped by then.
    const rows = await api.deps.sql`SELECT 1 FROM attestations WHERE attestation_id IN ${api.deps.sql(ids)}`;
    expect(rows).toHaveLength(ids.length);
    await expect(readyz(sidecar.port)).rejects.toThrow();
    await sidecar.close();
  });

  it('refuses a folder in use and a taken port, and releases everything it held by then', async () => {
    const sidecar = await start();
    await expect(startSidecar(settingsWith({}), extras)).rejects.toThrow(/^DATA_DIR .* is in use/);
    const other = join(folder.path, 'other');
    const settings = settingsWith({ DATA_DIR: other, SIDECAR_PORT: String(sidecar.port) });
    const refusal = `Port ${sidecar.port} on 127.0.0.1 is in use by another program. Stop that one, or set SIDECAR_PORT.`;
    await expect(startSidecar(settings, extras)).rejects.toThrow(refusal);
    await expect(startSidecar({ ...settings, SIDECAR_THREADS: 2 }, extras)).rejects.toThrow(refusal);
    // The sentence is all that is said, also where no control plane answers.
    const log = keptLog();
    const away = { ...settings, CONTROL_PLANE_URL: `http://127.0.0.1:${await freePort()}` };
    await expect(startSidecar(away, { logger: log })).rejects.toThrow(refusal);
    expect(log.text()).toBe('');
    running.push(await startSidecar({ ...settings, SIDECAR_PORT: await freePort() }, extras));
  });

  it('listens with one thread where the server cannot share a port', async () => {
    const settings = settingsWith({ SIDECAR_PORT: String(await freePort()), SIDECAR_THREADS: '2' });
    const sidecar = await startSidecar(settings, { ...extras, server: nodeServer(null) });
    running.push(sidecar);
    await isReady(sidecar.port);
    expect((await readyz(sidecar.port)).body.server.name).toBe('node:http');
    expect(readdirSync(join(folder.path, 'sidecar'))).toEqual(['0']);
  });

  describe('with several threads', () => {
    const threads: Worker[] = [];
    const onThread = (thread: Worker) => threads.push(thread);
    beforeEach(() => {
      threads.length = 0;
      process.on('worker', onThread);
    });
    afterEach(() => {
      process.off('worker', onThread);
    });

    const decisions = async (port: number): Promise<number> => {
      const { body } = await call(`http://127.0.0.1:${port}/metrics`);
      return Number(/^agent_trust_sidecar_decisions_total\{.*\} (\d+)$/m.exec(body)?.[1] ?? 0);
    };
    const allReady = (port: number) =>
      until(
        async () =>
          (await Promise.all(Array.from({ length: 12 }, () => readyz(port)))).every(
            ({ status }) => status === 200,
          ),
        { what: 'ready threads' },
      );

    it('serves on one port, each thread with a folder of its own, and counts them together', async () => {
      const { port, close } = await start({ SIDECAR_THREADS: '2' });
      await allReady(port);
      const ids = await checkMany(port, 40);
      expect(readdirSync(join(folder.path, 'sidecar')).sort()).toEqual(['0', '1']);
      expect(await decisions(port)).toBe(40);
      expect(await decisions(port)).toBe(40);
      await close();
      await allStored(ids);
      const rows = await api.deps.sql<{ source: string }[]>`
        SELECT DISTINCT source FROM attestations WHERE attestation_id IN ${api.deps.sql(ids)}`;
      expect(rows).toHaveLength(2);
    });

    it('restarts a thread that fails with an internal error, and keeps serving meanwhile', async () => {
      const { port } = await start({ SIDECAR_THREADS: '2' });
      await allReady(port);
      const before = threads.length;
      // What only a bug would send.
      must(threads[0], 'two threads are started').postMessage({ question: 'metrics', reply: {} });
      await until(() => threads.length > before, { what: 'another thread' });
      await allReady(port);
      await allStored(await checkMany(port, 20));
    });
  });

  it('brings the records of threads that an earlier start had and this one has not', async () => {
    const lonely = join(folder.path, 'sidecar', '3');
    const sidecarId = await sidecarIdOf(lonely, { clock: systemClock, random });
    const spool = await openSpool({
      directory: join(lonely, 'spool'),
      fsyncMs: 0,
      clock: systemClock,
      random,
      logger: silentLogger,
    });
    const id = random.newId('att', systemClock.now());
    await new Promise<void>((onWritten, onFailed) =>
      spool.append(inParts(recordAt(gateId, id)), { onWritten, onFailed }),
    );
    await spool.close();

    await start();
    await allStored([id]);
    const [row] = await api.deps.sql`SELECT source FROM attestations WHERE attestation_id = ${id}`;
    expect(row).toEqual({ source: sidecarId });
  });
});

/** Of a token that was no passport, at this gate. */
const recordAt = (gateId: string, id: string): SpooledRecord => ({
  id,
  chain_id: gateId,
  passport_id: null,
  gate_id: gateId,
  decision: 'BLOCK',
  reason: 'passport_malformed',
  request_hash: `sha256:${'0'.repeat(64)}`,
  permission_key: null,
  amount_micro_usd: null,
  constraints_evaluated: ['passport'],
  pii: [],
  timestamp_ms: systemClock.now(),
  token_hash: null,
  caller_mode: 'live',
});
