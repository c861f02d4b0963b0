import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { Pool } from 'undici';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { hourMs, type UnixMillis } from '../../shared/model/time.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import {
  renderChainPart,
  renderOutcomePart,
  renderRowHead,
  renderRowTail,
} from '../../shared/wire/sync/spooled-record.ts';
import { syncVersion } from '../../shared/wire/sync/sync.ts';
import { BatchBuilder, type ShippingConnection } from '../../sidecar/attest/batch.ts';
import { BlockWriter, frameBytesMax, frameRecords, SharedPart } from '../../sidecar/attest/spool-segment.ts';
import { type AuditStage, setAuditStage } from '../harness/audit-stage.ts';
import { bothCores, coreSeconds, measuredCore, otherCore } from '../harness/cores.ts';
import { describeDatabase, lackOf } from '../harness/database.ts';
import { count, interleaved, type Side, summary } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { targets } from '../harness/targets.ts';
import { addUnsignedRecords } from '../harness/unsigned-records.ts';

const passports = 100;
const gates = 10;
const sidecars = 2;
/** Of one sidecar. */
const batchesUnderWay = 2;
/** With 64 connections a sidecar decides about so many requests in a turn. */
const recordsOfTurn = 37;
const startMs = Date.parse('2026-01-01T00:00:00Z');
const random = systemRandom();

/** The next batches of a sidecar with a backlog, ready for the wire. */
type Backlog = readonly Buffer[];

/** As another sidecar. */
export async function connectStage(
  stage: AuditStage,
): Promise<ShippingConnection & { readonly epoch: string }> {
  const sidecarId = random.newId('side', Date.now() as UnixMillis);
  const answer = await fetch(`${stage.origin}/v1/sync/connect`, {
    method: 'POST',
    headers: { ...stage.headers, 'content-type': 'application/json' },
    body: JSON.stringify({ sync_version: syncVersion, sidecar_id: sidecarId, now_ms: Date.now() }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  const { connection_id } = (await answer.json()) as { connection_id: string };
  return { sidecarId, connectionId: connection_id, epoch: Buffer.from(random.bytes(16)).toString('hex') };
}

async function backlogOf(
  stage: AuditStage,
  batches: number,
  tokens: ReadonlyMap<string, string>,
  areHeld: boolean,
): Promise<Backlog> {
  const { sidecarId, connectionId, epoch } = await connectStage(stage);
  const records = recordsOf(stage, tokens, areHeld);
  const block = new BlockWriter(frameBytesMax);
  const batch = new BatchBuilder();
  const backlog: Buffer[] = [];
  let seq = 0;
  batch.begin(epoch, 1);
  while (backlog.length < batches) {
    const firstSeq = seq + 1;
    while (seq < firstSeq + recordsOfTurn - 1) records.next(block, ++seq);
    const frame = frameRecords(block.bytes, 0, block.seal());
    for (let from = 0; from < recordsOfTurn; ) {
      from += batch.addRecords(block.bytes, frame, from, recordsOfTurn);
      if (!batch.isFull) continue;
      backlog.push(Buffer.from(batch.body({ sidecarId, connectionId })));
      batch.begin(epoch, firstSeq + from);
    }
    block.clear();
  }
  return backlog.slice(0, batches);
}

/** Writes records as a sidecar does: PERMITs short, and one BLOCK in ten whole. */
function recordsOf(
  stage: AuditStage,
  tokens: ReadonlyMap<string, string>,
  areHeld: boolean,
): { next(block: BlockWriter, seq: number): void } {
  const { passportIds, gateIds } = stage;
  const of = <Item>(list: readonly Item[], index: number): Item =>
    must(list[index % list.length], 'the stage has passports and gates');
  const chains = passportIds.slice(0, passports).map((id) => ({
    chain_id: id,
    passport_id: id,
    token_hash: must(tokens.get(id), 'each passport has a token'),
  }));
  const chainParts = chains.map((chain) => new SharedPart(renderChainPart(chain)));
  const outcomes = gateIds.map((gate_id) => ({
    gate_id,
    decision: 'PERMIT',
    reason: null,
    permission_key: 'orders:create',
    constraints_evaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission', 'spend_limit'],
    pii: [],
    caller_mode: 'live',
    ...(areHeld ? { policy_hash: null, trust_level: 'L1' } : {}),
  }));
  const outcomeParts = outcomes.map((outcome) => new SharedPart(renderOutcomePart(outcome)));
  return {
    next: (block, seq) => {
      const nowMs = Date.now() as UnixMillis;
      const id = random.newId('att', nowMs);
      const hash = `sha256:${Buffer.from(random.bytes(32)).toString('hex')}`;
      const amount = 12_500_000 + seq;
      if (seq % 10 !== 3) {
        const tail = areHeld ? renderRowTail(0, { hold_expires_at_ms: nowMs + hourMs }) : '';
        const head = renderRowHead(id, hash, amount, nowMs, []) + tail;
        block.addParts(seq, { head, chain: of(chainParts, seq), outcome: of(outcomeParts, seq) });
        return;
      }
      block.add(
        seq,
        JSON.stringify({
          ...{ id, request_hash: hash, amount_micro_usd: amount, timestamp_ms: nowMs },
          ...of(chains, seq),
          ...of(outcomes, seq),
          ...{ decision: 'BLOCK', reason: 'spend_limit_exceeded' },
          ...(areHeld ? { state_age_ms: 0, extras: null } : {}),
        }),
      );
    },
  };
}

/**
 * Share of the two cores that other programs may use before a missed target is not judged. They only make
 * it slower: a target met beside them is met.
 */
const othersMax = 0.1;
const coresSeconds = () => coreSeconds(measuredCore) + coreSeconds(otherCore);

/** Processor seconds of all processes of a PostgreSQL server, ended ones included. */
interface DatabaseServer {
  readonly cpuSeconds: () => number;
}

export async function databaseServer({ sql }: Pick<AuditStage, 'sql'>): Promise<DatabaseServer> {
  const [row] = await sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
  const server = must(statOf(must(row, 'a session has a process').pid), 'the session is there').parent;
  const children = () => readdirSync('/proc').filter((name) => statOf(Number(name))?.parent === server);
  // It was started on the core for what is not measured.
  for (const pid of [server, ...children()])
    execFileSync('taskset', ['-a', '-c', '-p', bothCores, String(pid)], { stdio: 'ignore' });
  return {
    cpuSeconds: () => {
      const own = must(statOf(server), 'the server runs');
      const running = children().map((pid) => statOf(Number(pid))?.seconds ?? 0);
      return running.reduce((sum, seconds) => sum + seconds, own.seconds + own.endedSeconds);
    },
  };
}

/** proc(5): the parent, and hundredths of user and system time, its own and those of children that ended. */
function statOf(pid: number): { parent: number; seconds: number; endedSeconds: number } | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    // Not a process, or one that has just ended.
    return null;
  }
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const at = (index: number) => Number(fields[index]);
  return { parent: at(1), seconds: (at(11) + at(12)) / 100, endedSeconds: (at(13) + at(14)) / 100 };
}

/**
 * P11: records of sidecars with a backlog, from the wire to the commit; P25: what they take in the database.
 * The clock stops when the last batch is answered, which is after its commit.
 */
export async function ingest({ size, database, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 7, quick: 3, brief: 1 }[size];
  const batches = { full: 40, quick: 10, brief: 2 }[size];
  const storedMin = { full: 2_000_000, quick: 200_000, brief: 1_000 }[size];
  const title = 'Records of sidecars, committed';
  const base = { row: 'ingest', title, unit: 'records/s', rounds, secondsEach: 0 };
  const reason = lackOf(database);
  if (reason !== null) return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  const stage = await setAuditStage({ ...ingestStage, database });
  try {
    const load = await ingestLoad(stage, batches);
    let othersSeconds = 0;
    let allSeconds = 0;
    const cost: { readonly controlPlane: number; readonly database: number }[] = [];
    const side: Side = {
      name: 'control plane and PostgreSQL, two cores',
      measure: async () => {
        const ship = await load.prepare();
        const generatorBefore = process.cpuUsage();
        const coresBefore = coresSeconds();
        const { seconds, controlPlane, database } = await ship();
        cost.push({ controlPlane, database });
        const generator = process.cpuUsage(generatorBefore);
        const ours = controlPlane + database + (generator.user + generator.system) / 1e6;
        othersSeconds += Math.max(0, coresSeconds() - coresBefore - ours);
        allSeconds += 2 * seconds;
        return figureOf(load.records, { seconds, controlPlane, database });
      },
    };
    // Until then the compiler of Node works beside it.
    await side.measure(0);
    cost.length = 0;
    othersSeconds = 0;
    allSeconds = 0;
    const figures = await interleaved([side], { rounds, seconds: 0, say });
    await load.close();
    const microseconds = (of: 'controlPlane' | 'database') =>
      (summary(cost.map((each) => each[of])).median / load.records) * 1e6;
    say(`adding records up to ${count(storedMin)}`);
    await fillUp(stage, storedMin);
    const stored = await bytesPerRecord(stage);
    const others = othersSeconds / allSeconds;
    const line = tableLine(
      {
        name: side.name,
        does: 'reads the batches, checks each record against gates and passports, links, signs, stores, counts, commits, answers',
        doesNot: database === 'embedded' ? 'wait for the disk: the database is disposable' : '',
        target: null,
      },
      figures,
      side.name,
    );
    const isMissed = line.perSecond.median < targets.P11.wanted;
    return {
      ...base,
      lines: [line],
      skipped: [],
      notes: [
        describeDatabase(database),
        `Processor time for each record: ${microseconds('controlPlane').toFixed(1)} us of the control plane, its signing threads included, ${microseconds('database').toFixed(1)} us of PostgreSQL. The generator shares the two cores; its batches are made before the clock starts.`,
        `${count(load.records)} records a round from ${sidecars} sidecars, in batches of ${count(limits.ingestRecordsMax)}, ${batchesUnderWay} of each under way, for ${passports} passports at ${gates} gates; one in ten is a BLOCK. Rounds have a number of records, no length.`,
        `Stored for each of ${count(stored.records)} records: ${stored.text}.`,
      ],
      judged: [
        {
          target: 'P11',
          figure: line.perSecond.median,
          disturbed: isMissed && others > othersMax ? 'other programs had a part of the cores' : null,
        },
        { target: 'P25', figure: stored.bytes, disturbed: null },
      ],
    };
  } finally {
    await stage.stop();
  }
}

/** One round of records, shipped by sidecars with a backlog. */
export interface IngestLoad {
  /** In a round. */
  readonly records: number;
  /** Makes the batches of a round; what it returns ships them. */
  readonly prepare: () => Promise<() => Promise<Shipped>>;
  readonly close: () => Promise<void>;
}

/** From the first batch to the answer of the last, and the processor seconds that this took. */
interface Shipped {
  readonly seconds: number;
  readonly controlPlane: number;
  readonly database: number;
}

/** The passports and gates that a stage needs for it. */
export const ingestStage = { passports: 2 * passports, gates, core: bothCores };

/** `areHeld`: the amounts of PERMITs are, for an hour. */
export async function ingestLoad(
  stage: AuditStage,
  batches: number,
  { areHeld = false }: { readonly areHeld?: boolean } = {},
): Promise<IngestLoad> {
  const rows = await stage.sql<{ id: string; hash: string }[]>`
    SELECT passport_id AS id, token_hash AS hash FROM passports`;
  const tokens = new Map(rows.map(({ id, hash }) => [id, hash]));
  const server = await databaseServer(stage);
  const pool = new Pool(stage.origin, { connections: sidecars * batchesUnderWay });
  return {
    records: batches * sidecars * limits.ingestRecordsMax,
    close: () => pool.close(),
    prepare: async () => {
      const backlogs = await Promise.all(
        Array.from({ length: sidecars }, () => backlogOf(stage, batches, tokens, areHeld)),
      );
      return async () => {
        const [ownBefore, databaseBefore] = [stage.controlPlane.cpuSeconds(), server.cpuSeconds()];
        const before = performance.now();
        await Promise.all(backlogs.map((backlog) => ship(stage, pool, backlog)));
        return {
          seconds: (performance.now() - before) / 1_000,
          controlPlane: stage.controlPlane.cpuSeconds() - ownBefore,
          database: server.cpuSeconds() - databaseBefore,
        };
      };
    },
  };
}

export const figureOf = (records: number, { seconds, controlPlane, database }: Shipped) => ({
  perSecond: records / seconds,
  perCpuSecond: records / (controlPlane + database),
  coresBusy: (controlPlane + database) / seconds,
});

/** Sends the next batch while one is under way, as a shipper with a backlog does. */
async function ship(stage: AuditStage, pool: Pool, backlog: Backlog): Promise<void> {
  let earlier: Promise<void> = Promise.resolve();
  for (const body of backlog) {
    const first = send(stage, pool, body);
    const before = earlier;
    const taken = (async () => {
      const status = await first;
      await before;
      // It overtook the batch before it.
      const last = status === 409 ? await send(stage, pool, body) : status;
      if (last !== 200) throw new Error(`a batch was answered ${last}`);
    })();
    await before;
    earlier = taken;
  }
  await earlier;
}

async function send({ headers }: AuditStage, pool: Pool, body: Buffer): Promise<number> {
  const { statusCode, body: answer } = await pool.request({
    method: 'POST',
    path: '/v1/sync/attestations',
    headers: { ...headers, 'content-type': 'application/json' },
    body,
  });
  await answer.dump();
  return statusCode;
}

/** Adds records of other passports, made by the database, because shipping them would take too long. */
async function fillUp({ sql, owner, passportIds, gateIds }: AuditStage, wanted: number): Promise<void> {
  const [row] = await sql<{ count: number }[]>`SELECT count(*) AS count FROM records`;
  const step = 20_000;
  for (let from = 0; from + must(row, 'a count has a row').count < wanted; from += step) {
    const others = passportIds.slice(passports);
    await addUnsignedRecords(sql, { owner, passportIds: others, gateIds, from, count: step, startMs });
  }
}

async function bytesPerRecord({
  sql,
}: Pick<AuditStage, 'sql'>): Promise<{ records: number; bytes: number; text: string }> {
  const [size] = await sql<{ records: number; ofTable: number; all: number }[]>`
    SELECT (SELECT count(*) FROM records) AS records, pg_table_size('records') AS "ofTable",
      pg_total_relation_size('records') AS all`;
  const { records, ofTable, all } = must(size, 'a table has a size');
  const each = (bytes: number) => Math.round(bytes / records);
  return {
    records,
    bytes: each(all),
    text: `${each(ofTable)} bytes in the table, ${each(all - ofTable)} in its indexes`,
  };
}
