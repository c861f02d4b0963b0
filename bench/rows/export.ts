import { createWriteStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { request } from 'undici';
import { appendRecords, type NewRecord } from '../../control-plane/attestations/append-records.ts';
import { recordProjections } from '../../control-plane/record-projections.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { type ExportFormat, exportFormats } from '../../shared/attestation/export-formats.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { textHash } from '../../shared/crypto/content-hash.ts';
import { sealer } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { GateId, PassportId, SidecarId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { type AuditStage, setAuditStage } from '../harness/audit-stage.ts';
import { benchExtras } from '../harness/bench-facts.ts';
import { measuredCore } from '../harness/cores.ts';
import { commandSide } from '../harness/export-command.ts';
import { forgetPeak, judgedMemory, type MemoryTaken, mebibytes, memoryOf } from '../harness/memory.ts';
import { peer, start } from '../harness/programs.ts';
import { interleaved, type Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';

/** P19: what an export costs in memory, and its offline verification in time and memory. */
export async function exportOf({ size, say }: BenchOptions): Promise<Table> {
  const records = { full: 1_000_000, quick: 20_000, brief: 2_000 }[size];
  const rounds = { full: 3, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 5, quick: 1, brief: briefS }[size];
  const stage = await setAuditStage({ passports: 50, gates: 10 });
  try {
    say(`appending ${records.toLocaleString('en-US')} signed records`);
    const appended = await fill(stage, records);
    say(appended);
    const idle = await memoryAtRest(stage);
    const exports: MemoryTaken[] = [];
    for (const format of Object.keys(exportFormats) as ExportFormat[]) {
      const taken = await measureExport(stage, format, { records, idle });
      say(`${taken.what}: ${mebibytes(taken.bytes)} MiB`);
      exports.push(taken);
    }
    const jwks = join(stage.folder, 'jwks.json');
    await writeFile(jwks, await (await fetch(`${stage.origin}/.well-known/jwks.json`)).text());
    const empty = join(stage.folder, 'empty.jsonl');
    await download(stage, `format=jsonl&since=${new Date(Date.now() + 60_000).toISOString()}`, empty);

    const ours = commandSide('verify', { file: fileOf(stage, 'jsonl'), jwks, records });
    const raw = rawSide(fileOf(stage, 'jsonl'), jwks);
    const figures = await interleaved([ours.side, raw], { rounds, seconds: secondsEach, say });
    const ofNothing = commandSide('verify', { file: empty, jwks, records: 0 });
    await ofNothing.side.measure(0);
    const asJson = commandSide('verify', { file: fileOf(stage, 'json'), jwks, records });
    await asJson.side.measure(0);

    const memory = judgedMemory('P19 memory', [
      ...exports,
      {
        what: 'Memory of the verification over that of an empty export, jsonl',
        bytes: ours.peak() - ofNothing.peak(),
      },
      { what: 'The same, json', bytes: asJson.peak() - ofNothing.peak() },
    ]);
    return {
      row: 'export',
      title: `Export of ${records.toLocaleString('en-US')} records, and its offline verification on one core`,
      unit: 'records/s',
      rounds,
      secondsEach,
      lines: [
        {
          name: ours.side.name,
          does: 'starts, reads the file, and checks spelling, members, hashes, links, signatures, keys and counts of every record',
          doesNot: 'stop after the seconds of a round: it verifies the whole file each time',
          target: null,
        },
        {
          name: raw.name,
          does: 'SHA-256 of each record and the check of its signature, with the same engine',
          doesNot: 'start, read, parse or compare anything: the bytes lie ready',
          target: wantedOf('P19'),
        },
      ].map((line) => tableLine(line, figures, ours.side.name)),
      skipped: [],
      notes: [...memory.notes, appended],
      judged: memory.judged,
    };
  } finally {
    await stage.stop();
  }
}

/** Sidecars that the records come from. */
const sidecars = 20;

/** Through the service's own way into the store. */
async function fill(stage: AuditStage, records: number): Promise<string> {
  const { sql } = stage;
  const ed25519 = chooseEd25519();
  const random = systemRandom();
  const deps = { sql, clock: systemClock, random, ed25519, sealer: sealer(stage.masterKey) };
  const signingKeys = await loadSigningKeys(deps);
  const sources = Array.from({ length: sidecars }, () => random.newId('side', systemClock.now()));
  const batch = 1_000;
  const before = performance.now();
  for (let from = 0; from < records; from += batch) {
    const made = Array.from({ length: batch }, (_, i) => recordOf({ ...stage, sources }, from + i, random));
    await sql.begin((tx) =>
      appendRecords(
        tx,
        {
          random,
          signingKeys,
          appending: { isStopped: false, projections: recordProjections, recordForm: () => 2 },
        },
        made,
      ),
    );
  }
  const perSecond = Math.round((records / (performance.now() - before)) * 1_000);
  return `Appended ${perSecond.toLocaleString('en-US')} records/s: linked, signed, inserted into all indexes, counted.`;
}

function recordOf(
  { owner, passportIds, gateIds, policies, sources }: AuditStage & { readonly sources: readonly SidecarId[] },
  number: number,
  random: ReturnType<typeof systemRandom>,
): NewRecord {
  const passportId = must(passportIds[number % passportIds.length], 'there are passports') as PassportId;
  const gateId = must(gateIds[number % gateIds.length], 'there are gates') as GateId;
  const nowMs = systemClock.now();
  return {
    record: {
      id: random.newId('att', nowMs),
      chainId: passportId as ChainId,
      passportId,
      gateId,
      decision: 'PERMIT',
      reason: null,
      requestHash: textHash(`request ${number}`),
      permissionKey: 'orders:create' as PermissionKey,
      amountMicroUsd: (12_500_000 + number) as MicroUsd,
      constraintsEvaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission', 'spend_limit'],
      pii: [],
      test: false,
      resolution: null,
      refersTo: null,
      source: must(sources[number % sources.length], 'there are sidecars'),
      sourceAccount: owner.accountId,
      timestampMs: nowMs,
      ...benchExtras,
      policyHash: must(policies.get(gateId), 'a gate has a policy'),
    },
    passportOwner: owner,
    gateOwner: owner,
  };
}

const fileOf = ({ folder }: AuditStage, format: ExportFormat): string => join(folder, `export.${format}`);

/**
 * Memory of the control plane after a few requests and a rest: the same base for all formats, because each of
 * them leaves it a little larger.
 */
async function memoryAtRest(stage: AuditStage): Promise<number> {
  const future = new Date(Date.now() + 60_000).toISOString();
  for (const format of Object.keys(exportFormats)) {
    await download(stage, `format=${format}&since=${future}`, join(stage.folder, 'empty'));
  }
  await pause(1_000);
  return memoryOf(stage.controlPlane.pid).now;
}

async function measureExport(
  stage: AuditStage,
  format: ExportFormat,
  { records, idle }: { readonly records: number; readonly idle: number },
): Promise<MemoryTaken> {
  const { pid } = stage.controlPlane;
  forgetPeak(pid);
  const before = performance.now();
  const bytes = await download(stage, `format=${format}`, fileOf(stage, format));
  const seconds = (performance.now() - before) / 1_000;
  const taken = memoryOf(pid).peak - idle;
  const speed = `${Math.round(records / seconds).toLocaleString('en-US')} records/s, ${mebibytes(bytes / seconds)} MiB/s`;
  return {
    what: `Export as ${format}, ${mebibytes(bytes)} MiB at ${speed}: memory of the control plane at most, over ${mebibytes(idle)} MiB idle`,
    bytes: taken,
  };
}

/** Returns its bytes. */
async function download({ origin, headers }: AuditStage, query: string, file: string): Promise<number> {
  const { statusCode, body } = await request(`${origin}/v1/attestations/export?${query}`, { headers });
  if (statusCode !== 200) throw new Error(`the export answered ${statusCode}: ${await body.text()}`);
  const output = createWriteStream(file);
  await pipeline(body, output);
  return output.bytesWritten;
}

const rawSide = (file: string, jwks: string): Side => ({
  name: 'SHA-256 and Ed25519 alone',
  measure: async (seconds) => {
    const run = start({
      core: measuredCore,
      command: [...peer('raw-verify'), file, jwks, String(seconds)],
    });
    const [, perSecond, cores] = await run.find(/^RESULT (\S+) (\S+)$/m);
    await run.ended;
    const coresBusy = Number(cores);
    return { perSecond: Number(perSecond), perCpuSecond: Number(perSecond) / coresBusy, coresBusy };
  },
});
