import { randomBytes } from 'node:crypto';
import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { startControlPlane } from '../../control-plane/main.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { GateId, PassportId } from '../../shared/model/ids.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { parseSettings } from '../../shared/runtime/settings.ts';
import { type SpooledRecord, syncVersion } from '../../shared/wire/sync.ts';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { type TestDatabaseServer, testDatabaseServer, waitingForLocks } from '../support/postgres.ts';
import { bundledPrograms } from '../support/programs.ts';
import { random } from '../support/spooled.ts';
import { spooledRecord } from '../support/spooled-record.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

/**
 * Batches that are linked and signed ahead while what they rely on goes away: programs as they are run,
 * and a PostgreSQL of their own. Enough records in each for the signing threads.
 */
const batchSize = 40;
const secrets = {
  adminKey: `at_live_${randomBytes(24).toString('hex')}`,
  masterKey: randomBytes(32).toString('base64url'),
};

let server: TestDatabaseServer;
let world: Installation;
let first: Running;
let second: Running;
let gateId: string;
let passport: { readonly id: string; readonly token: string };
const shipped: string[] = [];

beforeAll(async () => {
  server = await testDatabaseServer();
  world = await installation(await bundledPrograms(), { databaseUrl: server.url, secrets });
  first = await world.startControlPlane();
  second = await world.startControlPlane();
  gateId = await world.createGate();
});
afterAll(async () => {
  await world?.close();
  await server?.stop();
});
// A chain of its own for each test.
beforeEach(async () => {
  passport = await world.issuePassport();
});

interface Sidecar {
  /** The batch of that number, from 0, once. Resolves to its status; 0 where there is no answer. */
  send(batch: number, origin?: string): Promise<number>;
  /** Sends all batches until each is taken, as a shipper does. */
  finish(): Promise<void>;
}

async function connectTo(origin: string, batches: number): Promise<Sidecar> {
  const nowMs = Date.now();
  const key = secrets.adminKey;
  const sidecar_id = random.newId('side', nowMs as Parameters<typeof random.newId>[1]);
  const connected = await call(`${origin}/v1/sync/connect`, {
    key,
    body: { sync_version: syncVersion, sidecar_id, now_ms: nowMs },
  });
  expect(connected.status).toBe(200);
  const { connection_id } = connected.body;
  const epoch = randomBytes(16).toString('hex');
  const record = (): SpooledRecord =>
    spooledRecord({
      id: random.newId('att', nowMs as Parameters<typeof random.newId>[1]),
      chain_id: passport.id as PassportId,
      passport_id: passport.id as PassportId,
      gate_id: gateId as GateId,
      token_hash: sha256Hex(passport.token),
      timestamp_ms: nowMs as SpooledRecord['timestamp_ms'],
    });
  const recordsOf = Array.from({ length: batches }, () => Array.from({ length: batchSize }, record));
  shipped.push(...recordsOf.flat().map(({ id }) => id));
  const send = async (batch: number, at = origin): Promise<number> => {
    const body = {
      sidecar_id,
      connection_id,
      epoch,
      first_seq: 1 + batch * batchSize,
      records: recordsOf[batch],
    };
    return call(`${at}/v1/sync/attestations`, { key, body }).then(
      ({ status }) => status,
      () => 0,
    );
  };
  return {
    send,
    finish: async () => {
      for (let batch = 0; batch < batches; batch++)
        await until(async () => (await send(batch)) === 200, { what: `batch ${batch} is taken` });
    },
  };
}

/** Runs the work while another session holds the chain of the passport, and lets go of it then. */
async function whileChainIsHeld(work: (waiting: () => Promise<number>) => Promise<void>): Promise<void> {
  const sql = connect({ url: server.url, connectionsMax: 2 });
  try {
    await sql
      .begin(async (tx) => {
        await tx`SELECT FROM chains WHERE chain_id = ${passport.id} FOR UPDATE`;
        await work(() => waitingForLocks(sql));
      })
      // The server may be gone by then.
      .catch(() => undefined);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Every record that was shipped is there once, and two verifiers agree that all chains hold. */
async function expectAllOnce(): Promise<void> {
  expect(await world.verifyExport()).toContain('OK: ');
  const sql = connect({ url: server.url, connectionsMax: 1 });
  try {
    const rows = await sql<{ id: string }[]>`SELECT attestation_id AS id FROM attestations`;
    expect(rows.map(({ id }) => id).sort()).toEqual(shipped.toSorted());
  } finally {
    await sql.end();
  }
}

it('takes every record once where PostgreSQL goes away while batches are linked ahead', async () => {
  const sidecar = await connectTo(first.origin, 3);
  expect(await sidecar.send(0)).toBe(200);
  let answers: Promise<number[]> | undefined;
  await whileChainIsHeld(async (waiting) => {
    const one = sidecar.send(1);
    await until(async () => (await waiting()) > 0, { what: 'a batch that is signed waits for its chain' });
    // Not before: it would leave a gap where it came first.
    answers = Promise.all([one, sidecar.send(2)]);
    await server.stopServer();
  });
  for (const status of (await answers) ?? []) expect([500, 503]).toContain(status);
  await server.startServer();
  await sidecar.finish();
  await expectAllOnce();
});

it('takes every record once where two control planes have linked ahead for the same chain', async () => {
  const sidecars = [await connectTo(first.origin, 4), await connectTo(second.origin, 4)];
  for (const sidecar of sidecars) expect(await sidecar.send(0)).toBe(200);
  let answers: Promise<number[]> | undefined;
  await whileChainIsHeld(async (waiting) => {
    answers = Promise.all(sidecars.flatMap((sidecar) => [1, 2, 3].map((batch) => sidecar.send(batch))));
    await until(async () => (await waiting()) >= 2, { what: 'a batch of each waits for the chain' });
  });
  // A batch that came before the one that it follows leaves a gap, and comes again.
  for (const status of (await answers) ?? []) expect([200, 409]).toContain(status);
  for (const sidecar of sidecars) await sidecar.finish();
  await expectAllOnce();
});

it('takes every record once where the signing threads die while batches are linked ahead', async () => {
  const folder = temporaryFolder();
  const threads = new Set<Worker>();
  const onThread = (thread: Worker) => threads.add(thread);
  process.on('worker', onThread);
  const settings = parseSettings(['control-plane'], {
    DATA_DIR: folder.path,
    DATABASE_URL: server.url,
    MASTER_KEY: secrets.masterKey,
    ADMIN_API_KEY: secrets.adminKey,
    PORT: '0',
  });
  const own = await startControlPlane(settings, {
    logger: silentLogger,
    signal: new AbortController().signal,
  });
  try {
    const sidecar = await connectTo(own.origin, 4);
    expect(await sidecar.send(0)).toBe(200);
    expect(threads.size).toBeGreaterThan(0);
    let answers: Promise<number[]> | undefined;
    await whileChainIsHeld(async (waiting) => {
      const ahead = sidecar.send(1);
      await until(async () => (await waiting()) > 0, { what: 'a batch that is signed waits for its chain' });
      const behind = [sidecar.send(2), sidecar.send(3)];
      answers = Promise.all([ahead, ...behind]);
      await Promise.all([...threads].map((thread) => thread.terminate()));
    });
    for (const status of (await answers) ?? []) expect([200, 409]).toContain(status);
    await sidecar.finish();
    await expectAllOnce();
  } finally {
    process.off('worker', onThread);
    await own.close();
    folder.remove();
  }
});
