import { recordHash } from '../../shared/attestation/record.ts';
import { must } from '../../shared/errors/assert.ts';
import type {
  Attestation,
  AttestationRecord,
  ChainId,
  PiiFinding,
  RecordProof,
} from '../../shared/model/attestation.ts';
import type { CheckName, Outcome } from '../../shared/model/decision.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import { isId } from '../../shared/model/ids.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { Database, Transaction } from '../base/database.ts';
import { distinct } from '../storage/distinct.ts';
import { idOfUuid } from './id-uuid.ts';
import { findNames } from './record-names.ts';

/**
 * A row of `records` as PostgreSQL returns it: numbers for repeated values (record-names.ts), bytes for
 * hashes. Only this service writes rows, so their values are not validated.
 */
export interface StoredRecord {
  readonly position: number;
  readonly attestation_id: string;
  readonly chain: number;
  readonly sequence: number;
  readonly previous_hash: Buffer | null;
  readonly signature: Buffer;
  readonly signing_key: number;
  readonly gate: number | null;
  readonly decision: keyof typeof outcomeOf;
  readonly reason: number | null;
  readonly request_hash: Buffer;
  readonly permission_key: Attestation['permissionKey'];
  readonly amount_micro_usd: Attestation['amountMicroUsd'];
  readonly checks: number;
  readonly pii: readonly PiiFinding[] | null;
  readonly test: boolean;
  readonly resolution: Attestation['resolution'];
  readonly refers_to: Attestation['refersTo'];
  readonly source: number;
  readonly source_account: number | null;
  readonly timestamp_ms: Attestation['timestampMs'];
  /** Null: a record in form 1. */
  readonly asserted: boolean | null;
  readonly trust_level: keyof typeof tierOf | null;
  readonly policy: number | null;
  readonly state_age_ms: number | null;
  readonly domain: string | null;
  readonly approval_id: string | null;
  readonly wallet: number | null;
  readonly hold_expires_ms: Attestation['holdExpiresAtMs'];
  readonly proof: keyof typeof proofOf | null;
  /** The digests of a path with commas between them. */
  readonly wallet_path: number | null;
  readonly carried: Attestation['carried'];
}

/** The columns of a row, for every SELECT. */
export const recordColumns = [
  'position',
  'attestation_id',
  'chain',
  'sequence',
  'previous_hash',
  'signature',
  'signing_key',
  'gate',
  'decision',
  'reason',
  'request_hash',
  'permission_key',
  'amount_micro_usd',
  'checks',
  'pii',
  'test',
  'resolution',
  'refers_to',
  'source',
  'source_account',
  'timestamp_ms',
  'asserted',
  'trust_level',
  'policy',
  'state_age_ms',
  'domain',
  'approval_id',
  'wallet',
  'hold_expires_ms',
  'proof',
  'wallet_path',
  'carried',
] as const satisfies readonly (keyof StoredRecord)[];

/** The letter of a decision in its row. */
export const letterOf = { PERMIT: 'P', SUSPEND: 'S', BLOCK: 'B' } as const satisfies Record<Outcome, string>;
/** The digit of a tier in its row, and the letter of a proof. */
export const digitOf = { L1: '1', L2: '2', L3: '3' } as const satisfies Record<TrustTier, string>;
const tierOf: Readonly<Record<'1' | '2' | '3', TrustTier>> = { 1: 'L1', 2: 'L2', 3: 'L3' };
export const letterOfProof = { dpop: 'd', httpsig: 'h' } as const satisfies Record<RecordProof, string>;
const proofOf = { d: 'dpop', h: 'httpsig' } as const satisfies Record<string, RecordProof>;
const outcomeOf = { P: 'PERMIT', S: 'SUSPEND', B: 'BLOCK' } as const satisfies Record<string, Outcome>;

/** Names by number. */
export type NamesOfRows = ReadonlyMap<number, string>;

const numbersOf = (row: StoredRecord): readonly (number | null)[] => [
  row.signing_key,
  row.gate,
  row.reason,
  row.checks,
  row.source,
  row.source_account,
  row.policy,
  row.wallet,
  row.wallet_path,
];

/** Whether all names of the row are known. */
export const isNamed = (row: StoredRecord, names: NamesOfRows): boolean =>
  numbersOf(row).every((number) => number === null || names.has(number));

export const namesOfRows = (
  sql: Database | Transaction,
  rows: readonly StoredRecord[],
): Promise<Map<number, string>> => findNames(sql, distinct(rows.flatMap(numbersOf)));

/** Records in the order of their rows. */
export const attestationsOf = (
  sql: Database | Transaction,
  rows: readonly StoredRecord[],
): Promise<Attestation[]> => named(sql, rows, attestationOf);

/** The same without their hashes, which take longer than all else: what the records say. */
export const decisionsOf = (
  sql: Database | Transaction,
  rows: readonly StoredRecord[],
): Promise<AttestationRecord[]> => named(sql, rows, unhashed);

async function named<Of>(
  sql: Database | Transaction,
  rows: readonly StoredRecord[],
  make: (row: StoredRecord, chainId: ChainId, names: NamesOfRows) => Of,
): Promise<Of[]> {
  if (rows.length === 0) return [];
  const [names, chains] = await Promise.all([
    namesOfRows(sql, rows),
    sql<{ number: number; chainId: ChainId }[]>`
      SELECT number, chain_id AS "chainId" FROM chains WHERE number = ANY(${distinct(rows.map(({ chain }) => chain))}::int[])`,
  ]);
  const chainIds = new Map(chains.map(({ number, chainId }) => [number, chainId]));
  return rows.map((row) =>
    make(row, must(chainIds.get(row.chain), 'a record is of a chain that is there'), names),
  );
}

/** The record of a row. The hash is not stored but computed from the rest, as verifiers do. */
export function attestationOf(row: StoredRecord, chainId: ChainId, names: NamesOfRows): Attestation {
  const attestation = unhashed(row, chainId, names);
  attestation.hash = recordHash(attestation);
  return attestation;
}

/**
 * One literal, with the hash assigned last: `{ ...placed, hash, signature }` gives each record its own hidden
 * class (V8 11.3, Node 20), about 1 KB until the next full collection, and makes every read of it
 * megamorphic. A test asserts that records share one class.
 */
function unhashed(
  row: StoredRecord,
  chainId: ChainId,
  names: NamesOfRows,
): Omit<Attestation, 'hash'> & { hash: string } {
  const name = (number: number): string => must(names.get(number), 'a number in a record has a name');
  const checks = name(row.checks);
  return {
    id: idOfUuid(row.attestation_id),
    chainId,
    passportId: isId('pass', chainId) ? chainId : null,
    gateId: row.gate === null ? null : (name(row.gate) as Attestation['gateId']),
    decision: outcomeOf[row.decision],
    reason: row.reason === null ? null : (name(row.reason) as Attestation['reason']),
    requestHash: hashText(row.request_hash),
    permissionKey: row.permission_key,
    amountMicroUsd: row.amount_micro_usd,
    constraintsEvaluated: checks === '' ? [] : (checks.split(',') as CheckName[]),
    pii: row.pii ?? [],
    test: row.test,
    resolution: row.resolution,
    refersTo: row.refers_to,
    source: name(row.source) as Attestation['source'],
    sourceAccount:
      row.source_account === null ? null : (name(row.source_account) as Attestation['sourceAccount']),
    timestampMs: row.timestamp_ms,
    policyHash: row.policy === null ? null : name(row.policy),
    trustLevel: row.trust_level === null ? null : tierOf[row.trust_level],
    domain: row.domain,
    stateAgeMs: row.state_age_ms,
    approvalId: row.approval_id,
    walletId: row.wallet === null ? null : name(row.wallet),
    walletPath: row.wallet_path === null ? null : pathOf(name(row.wallet_path)),
    holdExpiresAtMs: row.hold_expires_ms,
    proof: row.proof === null ? null : proofOf[row.proof],
    asserted: row.asserted,
    carried: row.carried,
    sequence: row.sequence,
    previousAttestationHash: row.previous_hash === null ? null : hashText(row.previous_hash),
    signingKeyId: name(row.signing_key),
    hash: '',
    signature: row.signature.toString('base64url'),
  };
}

const pathOf = (text: string): Attestation['walletPath'] =>
  text === '' ? [] : (text.split(',') as IdDigest[]);

/** A hash in its published form. */
export const hashText = (bytes: Buffer): string => `sha256:${bytes.toString('hex')}`;
