import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { processCpuMs } from '../support/base/process-cpu.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/*
 * What nothing costs. The bounds are loose, because other programs of the machine make each wake-up dearer:
 * one loop that asks four times a second, or a few that ask once, pass the first of them.
 */

/** Of all programs: one that says that they live, and a few looks. Measured: 5.7. */
const transactionsPerSecondMax = 8;
/** Of a core. Measured beside six busy programs: 2 % each. */
const shareMax = { controlPlane: 0.04, sidecar: 0.03 };
/** Which replica and which sidecar runs, and who writes the log. */
const tablesOfTheLiving = ['log_trees', 'replicas', 'sidecars'];

/** Until programs that have just started have compiled and looked at everything once. */
const settlingMs = 12_000;
const windowMs = 20_000;

let database: Awaited<ReturnType<typeof testDatabase>>;
let world: Installation;
let controlPlane: Running;
let sidecar: Running;

beforeAll(async () => {
  database = await testDatabase();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  controlPlane = await world.startControlPlane();
  sidecar = await world.startSidecar();
});
afterAll(async () => {
  await world?.close();
  await database?.drop();
});

interface Reading {
  readonly transactions: number;
  readonly written: Readonly<Record<string, number>>;
  readonly cpuMs: { readonly controlPlane: number; readonly sidecar: number };
}

async function read(): Promise<Reading> {
  const { sql } = database;
  const [row] = await sql<Pick<Reading, 'transactions' | 'written'>[]>`
    SELECT xact_commit + xact_rollback AS transactions, (
      SELECT json_object_agg(relname, n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables) AS written
    FROM pg_stat_database WHERE datname = current_database()`;
  const cpuMs = {
    controlPlane: processCpuMs(controlPlane.program.pid),
    sidecar: processCpuMs(sidecar.program.pid),
  };
  return { ...must(row, 'this database has statistics'), cpuMs };
}

it('a control plane and a sidecar with nothing to do ask for next to nothing and write nothing', async () => {
  await pause(settlingMs);
  const before = await read();
  await pause(windowMs);
  const after = await read();

  const perSecond = (after.transactions - before.transactions) / (windowMs / 1_000);
  expect(perSecond, 'transactions a second').toBeLessThan(transactionsPerSecondMax);
  const written = Object.keys(after.written).filter((name) => after.written[name] !== before.written[name]);
  expect(written.filter((name) => !tablesOfTheLiving.includes(name))).toEqual([]);
  for (const name of ['controlPlane', 'sidecar'] as const) {
    const share = (after.cpuMs[name] - before.cpuMs[name]) / windowMs;
    expect(share, `share of a core: ${name}`).toBeLessThan(shareMax[name]);
  }
});
