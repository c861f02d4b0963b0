import { expect } from 'vitest';
import type { Transaction } from '../../../control-plane/base/database.ts';
import type { Deps } from '../../../control-plane/deps.ts';
import { type ChainHead, emptyChain } from '../../../shared/attestation/chain.ts';
import { sha256Hex } from '../../../shared/crypto/content-hash.ts';
import { keyset } from '../../../shared/crypto/keyset.ts';
import type { SidecarId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { renderAttestation } from '../../../shared/wire/evidence/attestation.ts';
import type { AttestationBatch, SpooledRecord, VoidRun } from '../../../shared/wire/sync/sync.ts';
import { syncVersion } from '../../../shared/wire/sync/sync.ts';
import { type AttestationRow, attestationOf } from '../data/attestation-row.ts';
import { spooledRecord } from '../data/spooled-record.ts';
import { recordFaultOf } from '../data/verify-export.ts';
import type { Api, Reply } from './api.ts';

/** A sidecar as the control plane sees it: a connection and batches. */
export interface ConnectedSidecar {
  readonly sidecarId: SidecarId;
  readonly connectionId: string;
  readonly epoch: string;
  /** Its API key. */
  readonly key: string;
  /** Ships records from that number on; a change overrides the envelope. */
  send(
    firstSeq: number,
    records: readonly (SpooledRecord | VoidRun | object)[],
    change?: Partial<AttestationBatch>,
  ): Promise<Reply>;
}

export async function connectSidecar(
  api: Api,
  options: { readonly key?: string; readonly sidecarId?: SidecarId } = {},
): Promise<ConnectedSidecar> {
  const { random, clock } = api.deps;
  const sidecarId = options.sidecarId ?? random.newId('side', clock.now());
  const key = (await api.createKey({ scopes: ['sidecars:connect'] }, options.key ?? api.adminKey)).key;
  const connected = await api.call({
    url: '/v1/sync/connect',
    key,
    body: { sync_version: syncVersion, sidecar_id: sidecarId, now_ms: clock.now() },
  });
  expect(connected.status).toBe(200);
  const connectionId: string = connected.body.connection_id;
  const epoch = Buffer.from(random.bytes(16)).toString('hex');
  return {
    sidecarId,
    connectionId,
    epoch,
    key,
    send: (firstSeq, records, change = {}) =>
      api.call({
        url: '/v1/sync/attestations',
        key,
        body: {
          sidecar_id: sidecarId,
          connection_id: connectionId,
          epoch,
          first_seq: firstSeq,
          records,
          ...change,
        },
      }),
  };
}

/**
 * What a sidecar would spool about a decision at this gate, with this passport (as issued), both with the
 * service's own ids.
 */
export function recordOf(
  api: Api,
  about: { readonly gateId: string | null; readonly passport: Reply['body'] },
  change: Partial<SpooledRecord> = {},
): SpooledRecord {
  const nowMs = api.deps.clock.now();
  const plain = spooledRecord();
  return {
    ...plain,
    // A PERMIT has passed what the passport itself limits.
    constraints_evaluated: [
      ...plain.constraints_evaluated,
      ...(about.passport.constraints?.spend_limits === undefined ? [] : ['spend_limit']),
    ],
    id: api.deps.random.newId('att', nowMs),
    chain_id: about.passport.passport_id,
    passport_id: about.passport.passport_id,
    gate_id: about.gateId,
    token_hash: sha256Hex(about.passport.jwt),
    timestamp_ms: nowMs,
    ...change,
  };
}

/** Makes a passport older than it is, so that records of earlier times can be about it. */
export async function predatePassport(api: Api, passportId: string, durationMs: number): Promise<void> {
  await api.deps.sql`
    UPDATE passports SET issued_at_ms = issued_at_ms - ${durationMs} WHERE passport_id = ${passportId}`;
}

/**
 * The same about a token that did not verify. Without a gate the record belongs to the chain of the account.
 */
export const refusedRecordOf = (
  api: Api,
  about: { readonly gateId: string | null; readonly accountId: string },
  change: Partial<SpooledRecord> = {},
): SpooledRecord =>
  spooledRecord({
    id: api.deps.random.newId('att', api.deps.clock.now()),
    chain_id: about.gateId ?? about.accountId,
    passport_id: null,
    gate_id: about.gateId,
    token_hash: null,
    decision: 'BLOCK',
    reason: 'passport_signature_invalid',
    constraints_evaluated: ['passport'],
    timestamp_ms: api.deps.clock.now(),
    ...change,
  });

/**
 * The whole store, after whatever a test has done: every record verifies in its place, every head is its
 * chain's last record, and the counters are what counting the records gives. Returns the ids in order of
 * arrival.
 */
export async function expectSoundStore(api: Api): Promise<string[]> {
  // From one snapshot: a sidecar of the test may be shipping meanwhile.
  return api.deps.sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', (tx) => expectSound(tx, api.deps));
}

async function expectSound(sql: Transaction, { ed25519, signingKeys }: Deps): Promise<string[]> {
  const keys = keyset(ed25519, signingKeys.all());
  const rows = await sql<
    AttestationRow[]
  >`SELECT * FROM attestations ORDER BY chain_id COLLATE "C", sequence`;
  const heads = new Map<string, ChainHead>();
  for (const row of rows) {
    const wire = renderAttestation(attestationOf(row));
    const fault = await recordFaultOf(wire, heads.get(row.chain_id) ?? emptyChain, keys);
    expect(fault, `${row.chain_id} ${row.sequence}`).toBeNull();
    heads.set(row.chain_id, { sequence: row.sequence, hash: row.hash });
  }
  await expectTrueLatestTimes(sql);
  const stored = await sql<({ chain_id: string } & ChainHead)[]>`
    SELECT chain_id, sequence, hash FROM chains WHERE sequence > 0`;
  expect(new Map(stored.map(({ chain_id, sequence, hash }) => [chain_id, { sequence, hash }]))).toEqual(
    heads,
  );
  await expectTrueCounters(sql);
  return rows.toSorted((a, b) => a.position - b.position).map((row) => row.attestation_id);
}

async function expectTrueLatestTimes(sql: Transaction): Promise<void> {
  const wrong = await sql`
    SELECT chain_id, record.sequence FROM (
      SELECT *, max(timestamp_ms) OVER (PARTITION BY chain_id ORDER BY sequence) AS true_ms FROM attestations
    ) AS record JOIN chains USING (chain_id)
    WHERE record.latest_ms <> true_ms OR (record.sequence = chains.sequence AND chains.latest_ms <> true_ms)`;
  expect([...wrong], 'records with a wrong latest_ms').toEqual([]);
}

async function expectTrueCounters(sql: Transaction): Promise<void> {
  const gates = await sql`
    SELECT gate_id, total_requests, permits, blocks, last_request_at_ms FROM gate_use ORDER BY gate_id`;
  const countedGates = await sql`
    SELECT gate_id, count(*) AS total_requests, count(*) FILTER (WHERE decision = 'PERMIT') AS permits,
      count(*) FILTER (WHERE decision = 'BLOCK') AS blocks, max(timestamp_ms) AS last_request_at_ms
    FROM attestations WHERE gate_id IS NOT NULL AND NOT test AND coalesce(resolution, '') NOT IN ('approved', 'voided')
      AND NOT (decision = 'PERMIT' AND resolution IS NOT NULL)
    GROUP BY gate_id ORDER BY gate_id`;
  expect([...gates]).toEqual([...countedGates]);
  const passports =
    await sql`SELECT passport_id, use_count, last_used_at_ms FROM passport_use ORDER BY passport_id`;
  const countedPassports = await sql`
    SELECT passport_id, count(*) AS use_count, max(timestamp_ms) AS last_used_at_ms FROM attestations
    WHERE passport_id IS NOT NULL AND decision = 'PERMIT' AND resolution IS NULL AND NOT test
      AND (gate_id IS NOT NULL OR source_account = reader_account_id)
    GROUP BY passport_id ORDER BY passport_id`;
  expect([...passports]).toEqual([...countedPassports]);
}

/** As a sidecar makes one for each settlement. */
export const newReaderId = () => random.newId('att', systemClock.now());
const random = systemRandom();

/**
 * The body of a call that settles one request, as a test writes it: flat, with who speaks beside what is
 * settled.
 */
export function settlementCall({
  sidecar_id,
  connection_id,
  holder,
  ...settlement
}: {
  readonly sidecar_id: string;
  readonly connection_id: string;
  readonly holder: string;
  readonly [member: string]: unknown;
}): Record<string, unknown> & { readonly settlements: readonly object[] } {
  return {
    sidecar_id,
    connection_id,
    holder,
    settlements: [{ wanted_ms: limits.quotaWaitMsMax, reader_id: newReaderId(), ...settlement }],
  };
}
