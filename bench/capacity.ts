import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { archiveCommand } from '../cli/evidence/archive-attestations.ts';
import { verifyAttestationsCommand } from '../cli/verify/verify-attestations.ts';
import { appendRecords, type NewRecord } from '../control-plane/attestations/append-records.ts';
import { loadSigningKeys } from '../control-plane/signing/load-signing-keys.ts';
import { chooseEd25519 } from '../shared/crypto/choose-ed25519.ts';
import { textHash } from '../shared/crypto/content-hash.ts';
import { sealer } from '../shared/crypto/seal.ts';
import { must } from '../shared/errors/assert.ts';
import type { ChainId } from '../shared/model/attestation.ts';
import type { GateId, PassportId } from '../shared/model/ids.ts';
import type { MicroUsd } from '../shared/model/money.ts';
import type { PermissionKey } from '../shared/model/permission.ts';
import type { UnixMillis } from '../shared/model/time.ts';
import { systemClock } from '../shared/runtime/clock.ts';
import { systemRandom } from '../shared/runtime/random.ts';
import { type AuditStage, setAuditStage } from './harness/audit-stage.ts';
import { benchExtras } from './harness/bench-facts.ts';
import { onStopSignal } from './harness/programs.ts';

/*
 * What many records take, and what they cost (docs/operate/capacity.md):
 *
 *     nice -n 15 node .build/bench/bench/capacity.js [records] [minutes]
 *
 * Fills a database of its own with linked and signed records in partitions of twelve months, through the
 * service's own way into the store, for at most so many minutes (default: 10,000,000 and 120; each month gets
 * its share of both), and measures before and after: sizes, lists, the export, an archive of two months and
 * its verification. Prints a line for each figure.
 */
const [wanted = 10_000_000, minutes = 120] = process.argv.slice(2).map(Number);
const months = 12;
const batch = 1_000;
/** Records of one passport that follow each other, as those of an event-loop turn do. */
const run = 20;
const monthMs = 30.5 * 24 * 3_600_000;
const requestsEach = 200;

const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(): Promise<void> {
  const stage = await setAuditStage({ passports: 1_000, gates: 50 });
  onStopSignal(() => {
    // What is under way fails without its database, and the programs go with this one.
    void stage.stop();
  });
  try {
    const append = await appender(stage);
    await measure(stage, append, 0);
    const startedMs = performance.now();
    let records = 40_000;
    for (let month = 0; month < months; month += 1) {
      await moveClock(stage, month);
      const share = (month + 1) / months;
      const until = Math.floor(wanted * share);
      const untilMs = startedMs + minutes * 60_000 * share;
      for (; records < until && performance.now() < untilMs; records += batch) {
        await append(records, month);
        if (records % 100_000 === 0) say(`  ${count(records)} records`);
      }
    }
    const tookS = (performance.now() - startedMs) / 1_000;
    say(`  stored ${count(Math.round((records - 40_000) / tookS))} records/s, signed in this process`);
    await stage.sql.begin(async (tx) => {
      await tx`SELECT set_config('statement_timeout', '0', true)`;
      await tx`ANALYZE records`;
    });
    await sizes(stage);
    await measure(stage, append, records);
    await exportFor(stage, 60);
    await archive(stage);
  } finally {
    await stage.stop();
  }
}

const count = (number: number): string => number.toLocaleString('en-US');

/** From now on records arrive so many months later, as far as their partitions go. */
async function moveClock({ sql }: AuditStage, ahead: number): Promise<void> {
  const moment = `(moment + interval '${ahead} months') AT TIME ZONE 'UTC'`;
  await sql.unsafe(`
    CREATE OR REPLACE FUNCTION record_month(moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN date_part('year', ${moment})::bigint * 12 + date_part('month', ${moment})::bigint - 1`);
}

type Append = (from: number, month: number) => Promise<void>;

async function appender(stage: AuditStage): Promise<Append> {
  const { sql } = stage;
  const random = systemRandom();
  const deps = { sql, clock: systemClock, random, ed25519: chooseEd25519(), sealer: sealer(stage.masterKey) };
  const appending = { isStopped: false, projections: [], recordForm: () => 2 as const };
  const appendingDeps = { random, signingKeys: await loadSigningKeys(deps), appending };
  return async (from, month) => {
    const timestampMs = (systemClock.now() + month * monthMs) as UnixMillis;
    const made = Array.from({ length: batch }, (_, i): NewRecord => {
      const { owner, passportIds, gateIds, policies } = stage;
      const turn = Math.floor((from + i) / run);
      const passportId = must(passportIds[turn % passportIds.length], 'there are passports') as PassportId;
      const gateId = must(gateIds[turn % gateIds.length], 'there are gates') as GateId;
      return {
        record: {
          id: random.newId('att', timestampMs),
          chainId: passportId as ChainId,
          passportId,
          gateId,
          decision: 'PERMIT',
          reason: null,
          requestHash: textHash(`request ${from + i}`),
          permissionKey: 'orders:create' as PermissionKey,
          amountMicroUsd: 12_500_000 as MicroUsd,
          constraintsEvaluated: [
            'passport',
            'trust_level',
            'freshness',
            'issuer',
            'permission',
            'spend_limit',
          ],
          pii: [],
          test: false,
          resolution: null,
          refersTo: null,
          source: 'control-plane',
          sourceAccount: owner.accountId,
          timestampMs,
          ...benchExtras,
          policyHash: must(policies.get(gateId), 'a gate has a policy'),
        },
        passportOwner: owner,
        gateOwner: owner,
      };
    });
    await sql.begin((tx) => appendRecords(tx, appendingDeps, made));
  };
}

async function measure(stage: AuditStage, append: Append, records: number): Promise<void> {
  const month = records === 0 ? 0 : months - 1;
  const rounds: number[] = [];
  for (let round = 0; round < 20; round += 1) {
    const before = process.cpuUsage();
    const startedMs = performance.now();
    await append(records + 2 * round * batch, month);
    await append(records + (2 * round + 1) * batch, month);
    const { user, system } = process.cpuUsage(before);
    rounds.push((performance.now() - startedMs - (user + system) / 1_000) / (2 * batch));
  }
  say(`at ${count(records)} records`);
  say(
    `  a record waits for PostgreSQL: ${(1_000 * lower(rounds)).toFixed(1)} us (lower quartile of 20 rounds)`,
  );
  const { passportIds, gateIds } = stage;
  const first = (await page(stage, '?limit=500')).attestations.map(({ id }: { id: string }) => id);
  for (const [what, path] of [
    ['list, everything', () => '?limit=50'],
    ['list, a passport', (i: number) => `?passport_id=${passportIds[i % passportIds.length]}`],
    ['list, a gate', (i: number) => `?gate_id=${gateIds[i % gateIds.length]}`],
    ['one by its id', (i: number) => `/${first[i % first.length]}`],
  ] as const) {
    const times: number[] = [];
    for (let i = 0; i < requestsEach; i += 1) {
      const startedMs = performance.now();
      await page(stage, path(i));
      times.push(performance.now() - startedMs);
    }
    times.sort((one, other) => one - other);
    const at = (share: number) => must(times[Math.floor(times.length * share)], 'some').toFixed(1);
    say(`  ${what}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
  }
}

const lower = (figures: number[]): number =>
  must(figures.sort((one, other) => one - other)[Math.floor(figures.length / 4)], 'there are rounds');

async function page({ origin, headers }: AuditStage, path: string) {
  const answer = await fetch(`${origin}/v1/attestations${path}`, { headers });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  // biome-ignore lint/suspicious/noExplicitAny: what a list holds is known here
  return (await answer.json()) as any;
}

async function sizes({ sql }: AuditStage): Promise<void> {
  const rows = await sql<{ name: string; table: number; indexes: number; records: number }[]>`
    SELECT relid::regclass::text AS name, pg_table_size(relid) AS "table", pg_indexes_size(relid) AS indexes,
      (SELECT reltuples::bigint FROM pg_class WHERE oid = relid) AS records
    FROM pg_partition_tree('records') WHERE isleaf ORDER BY 1`;
  const sum = (of: 'table' | 'indexes' | 'records') => rows.reduce((all, row) => all + row[of], 0);
  for (const { name, table, indexes, records } of rows) {
    if (records > 0) say(`  ${name}: ${count(records)} records, ${count(table)} + ${count(indexes)} bytes`);
  }
  const records = sum('records');
  say(
    `  ${Math.round(sum('table') / records)} bytes in the table and ${Math.round(sum('indexes') / records)} in indexes for a record`,
  );
}

async function exportFor({ origin, headers }: AuditStage, seconds: number): Promise<void> {
  const stop = new AbortController();
  const answer = await fetch(`${origin}/v1/attestations/export`, { headers, signal: stop.signal });
  void pause(seconds * 1_000).then(() => stop.abort());
  const startedMs = performance.now();
  let [bytes, lines] = [0, 0];
  try {
    for await (const chunk of must(answer.body, 'an export has a body')) {
      bytes += chunk.length;
      for (const byte of chunk) if (byte === 10) lines += 1;
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  }
  const tookS = (performance.now() - startedMs) / 1_000;
  say(`  export: ${count(Math.round(lines / tookS))} records/s, ${Math.round(bytes / lines)} bytes each`);
}

/** The first two months, as the operator's command moves them, and the verification of its file alone. */
async function archive({ origin, headers, folder, owner }: AuditStage): Promise<void> {
  const to = join(folder, 'archive');
  const now = new Date();
  const before = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 2)).toISOString().slice(0, 7);
  const access = { origin, key: must(headers['authorization'], 'a key').replace('Bearer ', '') };
  const output = { write: (text: string) => void process.stdout.write(`  ${text}`) };
  let startedMs = performance.now();
  await archiveCommand({ access, before, folder: to, isApplied: true, output });
  const archivedS = (performance.now() - startedMs) / 1_000;
  const jwks = join(folder, 'jwks.json');
  await writeFile(jwks, await (await fetch(`${origin}/.well-known/jwks.json`)).text());
  const file = join(to, `attestations-${owner.accountId}-${owner.mode}-before-${before}.jsonl`);
  startedMs = performance.now();
  await verifyAttestationsCommand({ files: [file], jwks, output, errors: output });
  const verifiedS = (performance.now() - startedMs) / 1_000;
  const { size } = await stat(file);
  say(
    `  archive of ${count(size)} bytes: ${archivedS.toFixed(1)} s; to verify it: ${verifiedS.toFixed(1)} s`,
  );
}

await main();
