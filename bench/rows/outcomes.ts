import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { limits } from '../../shared/model/limits.ts';
import { type AuditStage, setAuditStage } from '../harness/audit-stage.ts';
import { describeDatabase, lackOf } from '../harness/database.ts';
import { count, interleaved, type Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { connectStage, databaseServer, ingestLoad, ingestStage } from './ingest.ts';

const lookMs = 5;
/** Of one batch of outcomes. */
const batchMax = limits.ingestRecordsMax;

/** P30: outcomes of held PERMITs, from the wire until the last is settled with its record. */
export async function outcomes({ size, database, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const batches = { full: 10, quick: 2, brief: 1 }[size];
  const title = 'Outcomes of held PERMITs, committed';
  const base = { row: 'outcomes', title, unit: 'outcomes/s', rounds, secondsEach: 0 };
  const reason = lackOf(database);
  if (reason !== null) return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  const stage = await setAuditStage({ ...ingestStage, database });
  try {
    // One record in ten is a BLOCK.
    const load = await ingestLoad(stage, batches, { areHeld: true });
    const server = await databaseServer(stage);
    const pool = new Pool(stage.origin, { connections: 2 });
    let settled = 0;
    const side: Side = {
      name: 'control plane and PostgreSQL, two cores',
      measure: async () => {
        await (await load.prepare())();
        const bodies = await reportsOf(stage, await openHolds(stage));
        const [ownBefore, databaseBefore] = [stage.controlPlane.cpuSeconds(), server.cpuSeconds()];
        const before = performance.now();
        for (const body of bodies.texts) await send(stage, pool, body);
        while (!(await areApplied(stage))) await pause(lookMs);
        const seconds = (performance.now() - before) / 1_000;
        settled += bodies.count;
        await mustBeSettled(stage, settled);
        const cpu = stage.controlPlane.cpuSeconds() - ownBefore + server.cpuSeconds() - databaseBefore;
        return {
          perSecond: bodies.count / seconds,
          perCpuSecond: bodies.count / cpu,
          coresBusy: cpu / seconds,
        };
      },
    };
    await side.measure(0);
    const figures = await interleaved([side], { rounds, seconds: 0, say });
    await load.close();
    await pool.close();
    const line = tableLine(
      {
        name: side.name,
        does: 'takes the reports, locks the PERMITs, writes what they count, links, signs and stores a record for each, and commits',
        doesNot: 'return units of leases: the PERMITs of the row have taken none',
        target: null,
      },
      figures,
      side.name,
    );
    return {
      ...base,
      lines: [line],
      skipped: [],
      notes: [
        describeDatabase(database),
        `${count(settled / (rounds + 1))} outcomes a round, in batches of ${count(batchMax)}, each of another PERMIT. The row fails where one is not settled.`,
      ],
      judged: [{ target: 'P30', figure: line.perSecond.median, disturbed: null }],
    };
  } finally {
    await stage.stop();
  }
}

async function openHolds({ sql }: AuditStage): Promise<readonly string[]> {
  const rows = await sql<{ id: string }[]>`
    SELECT attestation_id AS id FROM permit_outcomes WHERE hold_status = 'open'`;
  await sql`ANALYZE permit_outcomes`;
  return rows.map(({ id }) => id);
}

/** Bodies of batches: each PERMIT came to a part of what is held. */
async function reportsOf(
  stage: AuditStage,
  ids: readonly string[],
): Promise<{ readonly texts: readonly string[]; readonly count: number }> {
  const { sidecarId, connectionId, epoch } = await connectStage(stage);
  const texts: string[] = [];
  for (let from = 0; from < ids.length; from += batchMax) {
    const records = ids.slice(from, from + batchMax).map((attestation_id) => ({
      outcome: 'served',
      attestation_id,
      amount_micro_usd: 1_000_000,
      detail: null,
      caller_mode: 'live',
      timestamp_ms: Date.now(),
    }));
    const batch = { sidecar_id: sidecarId, connection_id: connectionId, epoch, first_seq: from + 1, records };
    texts.push(JSON.stringify(batch));
  }
  return { texts, count: ids.length };
}

async function send({ headers }: AuditStage, pool: Pool, body: string): Promise<void> {
  const { statusCode, body: answer } = await pool.request({
    method: 'POST',
    path: '/v1/sync/attestations',
    headers: { ...headers, 'content-type': 'application/json' },
    body,
  });
  const text = await answer.text();
  if (statusCode !== 200) throw new Error(`a batch of outcomes was answered ${statusCode}: ${text}`);
}

const areApplied = async ({ sql }: AuditStage): Promise<boolean> =>
  (await sql`SELECT FROM reported_outcomes WHERE due_at_ms IS NOT NULL LIMIT 1`).length === 0;

async function mustBeSettled({ sql }: AuditStage, wanted: number): Promise<void> {
  const [row] = await sql<{ count: number }[]>`
    SELECT count(*) AS count FROM permit_outcomes WHERE hold_status = 'settled' AND counts_micro_usd = 1000000`;
  if (row?.count !== wanted) throw new Error(`${row?.count} of ${wanted} outcomes are settled`);
}
