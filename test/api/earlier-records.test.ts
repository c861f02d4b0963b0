import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { appendRecords } from '../../control-plane/attestations/append-records.ts';
import { attestationExporter } from '../../control-plane/attestations/export-attestations.ts';
import { exportedLog } from '../../control-plane/log/compare-export.ts';
import { recordProjections } from '../../control-plane/record-projections.ts';
import { migrate } from '../../control-plane/storage/migrate.ts';
import { snapshotExporter } from '../../control-plane/storage/snapshot-export.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { limits } from '../../shared/model/limits.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { at, sampleId, sampleKey, sampleRecord } from '../support/data/sample-chains.ts';
import { verdictOf } from '../support/data/verify-export.ts';
import { useDatabase } from '../support/database/use-database.ts';
import { earlierExportLines, earlierJwks } from '../vectors/earlier-export.ts';

const migrations = new URL('../../control-plane/storage/migrations/', import.meta.url);
/** The last migration before records named their account. */
const earlierMax = 10;
const owner = { accountId: sampleId('acct', 1), mode: 'live' } as const;
const recordLines = earlierExportLines.filter((line) => line.startsWith('{"amount_micro_usd"'));

const key = sampleKey(7);
const signAll = async (messages: readonly string[]) =>
  Buffer.concat(messages.map((message) => Buffer.from(key.sign(message), 'base64url')));
const signingKeys = { current: () => ({ ...key, signAll }), all: () => [] } as unknown as Parameters<
  typeof appendRecords
>[1]['signingKeys'];

const database = useDatabase({ isEmpty: true });
const folder = temporaryFolder();
beforeAll(async () => {
  const earlier = join(folder.path, 'migrations');
  mkdirSync(earlier);
  for (const name of readdirSync(migrations)) {
    if (Number(name.slice(0, 4)) > earlierMax) continue;
    copyFileSync(join(fileURLToPath(migrations), name), join(earlier, name));
  }
  await migrate(database.sql, { directory: pathToFileURL(`${earlier}/`) });
  await fillAsBefore();
  await migrate(database.sql);
});
afterAll(() => folder.remove());

/** What the earlier build left: its account, its key, and its chains. */
async function fillAsBefore(): Promise<void> {
  const { sql } = database;
  const [jwk] = earlierJwks.keys;
  await sql`
    INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
    VALUES (${owner.accountId}, 'of before', 'enterprise', 'active', true, 0)`;
  await sql`
    INSERT INTO signing_keys (kid, purpose, public_key, sealed_private_key, not_before_ms, created_at_ms)
    VALUES (${jwk.kid}, 'attestation', ${jwk.x}, '', ${jwk.nbf * 1_000}, 0)`;
  for (const line of recordLines) {
    const record = JSON.parse(line);
    await sql`
      INSERT INTO chains (chain_id, account_id, mode, sequence, hash, latest_ms)
      VALUES (${record.chain_id}, ${owner.accountId}, 'live', ${record.sequence}, ${record.hash}, ${Date.parse(record.timestamp)})
      ON CONFLICT (chain_id) DO UPDATE SET
        sequence = excluded.sequence, hash = excluded.hash, latest_ms = excluded.latest_ms`;
    const { previous_attestation_hash, timestamp, id, signing_key_id, ...columns } = record;
    await sql`
      INSERT INTO attestations ${sql({
        ...columns,
        attestation_id: id,
        signing_key_id,
        previous_hash: previous_attestation_hash,
        timestamp_ms: Date.parse(timestamp),
        latest_ms: Date.parse(timestamp),
        reader_account_id: owner.accountId,
        reader_mode: owner.mode,
      })}`;
  }
}

async function exported(): Promise<string> {
  const exporter = attestationExporter(
    { signingKeys },
    snapshotExporter(
      { sql: database.sql, logger: silentLogger },
      { ...limits, atOnceMax: 1, perOwnerMax: 1 },
    ),
    exportedLog({ witnesses: null }),
  );
  return text(await exporter({ owner, format: 'jsonl', sinceMs: null, nowMs: at(60_000) }));
}

/** Which the manifests of that build did not name. */
const generation = /"generation":"gen_[0-9a-f]{32}",/;
/** The manifest as that build wrote it. */
const asBefore = (line = ''): string => line.replace(generation, '').replace('.v2', '.v1');

async function verify(file: string): Promise<unknown> {
  expect(verifyExport(Buffer.from(file), earlierJwks)).toMatchObject({ chains: 2 });
  return verdictOf(file.trimEnd().split('\n'), keyset(chooseEd25519(), parseJwks(earlierJwks)));
}

it('records of an earlier build are exported byte for byte as before, after a newer manifest, and verify', async () => {
  const file = await exported();
  const lines = file.trimEnd().split('\n');
  expect(lines[0]).toMatch(generation);
  // The passports of that build's chains have no row here.
  const [passports, others] = [true, false].map((is) =>
    lines.slice(1).filter((line) => line.startsWith('{"passport":') === is),
  );
  expect(passports).toEqual([expect.stringContaining('"removed":true')]);
  expect([asBefore(lines[0]), ...(others ?? [])]).toEqual(earlierExportLines);
  expect(await verify(file)).toMatchObject({ kind: 'valid', records: 3 });
});

it('new records follow them in their chain, and all of it verifies', async () => {
  // A gate test counts nowhere: the gate and the passport have no row here.
  const record = sampleRecord(40, { test: true });
  const voided = sampleRecord(41, { resolution: 'voided', refersTo: record.id });
  const records = [record, voided].map((each) => ({ record: each, passportOwner: owner, gateOwner: owner }));
  const deps = {
    sql: database.sql,
    random: systemRandom(),
    signingKeys,
    appending: { isStopped: false, projections: recordProjections, recordForm: () => 2 as const },
  };
  await database.sql.begin((tx) => appendRecords(tx, deps, records));
  const file = await exported();
  expect(file).toContain(`"refers_to":"${sampleId('att', 40)}"`);
  for (const line of recordLines) expect(file).toContain(`${line}\n`);
  expect(await verify(file)).toMatchObject({ kind: 'valid', records: 5 });
});
