import { recordHash } from '../../shared/attestation/record.ts';
import { type DrawnWindows, windowsOf } from '../../shared/decision/windows-of.ts';
import { type AttestationRecord, noExtras } from '../../shared/model/attestation.ts';
import { isFederated } from '../../shared/model/federation.ts';
import type { AccountId, GateId, PassportId, WalletId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { ShippedRecord } from '../../shared/wire/sync/attestation-batch.ts';
import type { Database, Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { isShown, type ShownPassport, shownTo } from '../issuers/shown-passport-store.ts';
import { type PathHistory, readPathHistory, walletOfRecord } from '../quota/former-places.ts';
import { type WalletPath, walletPath } from '../quota/wallet-paths.ts';
import { distinct } from '../storage/distinct.ts';
import { readTogether } from '../storage/together.ts';
import type { NewRecord } from './append-records.ts';
import {
  findContradiction,
  needsApproval,
  ownRules,
  type PassportTerms,
  type ToldDecision,
} from './find-contradiction.ts';
import { earliestOf, timeOfId, uuidOfId } from './id-uuid.ts';
import { attestationsLimits } from './limits.ts';
import { attestationsOf, recordColumns, type StoredRecord } from './record-row.ts';

/** The sending sidecar, and the time. */
export interface RecordSender {
  readonly accountId: AccountId;
  readonly nowMs: UnixMillis;
}

/** Verdict on a shipped record. */
export type RecordVerdict =
  | { readonly kind: 'new'; readonly record: NewRecord }
  /** Already in its chain: a settlement appended it, and this is the second copy (contract §5). */
  | { readonly kind: 'stored' }
  /** The sidecar may not report this. The message names the field, never its value. */
  | { readonly kind: 'refused'; readonly message: string };

/**
 * Whether a sidecar may report these records (contract §9): only gates of its account, only passports whose
 * token it has seen, and nothing that contradicts the database. parseBatchItem has checked the form. Returns
 * one verdict each, in order. Judges records of batches and of settlements.
 */
export async function judgeRecords(
  sql: Database | Transaction,
  sender: RecordSender,
  records: readonly ShippedRecord[],
): Promise<readonly RecordVerdict[]> {
  return judgeAmong(await readKnown(sql, records), sender, records);
}

/** As above, with data that was read before for these records, and maybe others. */
export function judgeAmong(
  known: KnownThings,
  sender: RecordSender,
  records: readonly (ShippedRecord & { readonly isApproved?: boolean })[],
): readonly RecordVerdict[] {
  const idsSeen = new Set<string>();
  return records.map((shipped) => {
    const { record } = shipped;
    const isRepeated = idsSeen.has(record.id);
    idsSeen.add(record.id);
    const stored = known.stored.get(record.id);
    if (stored !== undefined && isCopy(record, stored)) return { kind: 'stored' };
    if (stored !== undefined || isRepeated) return refused('an attestation with this id already exists');
    const isApproved = shipped.isApproved === true;
    const mayBeApproved = isApproved || (shipped.took ?? []).length > 0;
    const message = whyNot(shipped, sender, known, mayBeApproved);
    if (message !== null) return refused(message);
    const walletId = walletOf(record, known);
    if (walletId === 'never') return refused('wallet_path is not one that passport_id had');
    return {
      kind: 'new',
      record: toNewRecord({ ...shipped, isApproved, walletId }, sender.accountId, known),
    };
  });
}

const refused = (message: string): RecordVerdict => ({ kind: 'refused', message });

/** A record stored by an earlier build names no account; its copy must match in all other fields. */
const isCopy = (record: AttestationRecord, stored: AttestationRecord): boolean =>
  contentHash(stored) ===
  contentHash(stored.sourceAccount === null ? { ...record, sourceAccount: null } : record);

/**
 * Hash of a record's content in form 1, independent of its place in the chain: a record that was shipped in
 * one form may have been stored in the other.
 */
const contentHash = (record: AttestationRecord): string =>
  recordHash({ ...record, ...noExtras, sequence: 1, previousAttestationHash: null, signingKeyId: '' });

interface PassportFact extends PassportTerms, ShownPassport {
  readonly owner: Owner;
  /** Of its limits and its wallets now: it draws on them at every gate. */
  readonly ownWindows: DrawnWindows;
}

/** The database's view of everything that the records name. */
export interface KnownThings {
  readonly gates: ReadonlyMap<GateId, Owner>;
  readonly passports: ReadonlyMap<PassportId, PassportFact>;
  readonly stored: ReadonlyMap<string, AttestationRecord>;
  /** The policies that gates have had, with their trust levels, by `policyName`. */
  readonly policies: ReadonlyMap<string, TrustTier>;
  /** Leases of standing approvals, by number. */
  readonly standingApprovals: ReadonlyMap<number, StandingApprovalLease>;
  readonly wallets: ReadonlyMap<PassportId, WalletPath>;
  readonly pathHistory: PathHistory;
}

interface GateRow extends Owner {
  readonly gateId: GateId;
  /** Of those that the records name: which the gate has had, with their trust levels. */
  readonly policies: Readonly<Record<string, TrustTier>> | null;
  readonly leaseId: null;
}

interface StandingApprovalLease {
  readonly leaseId: number;
  readonly standingApprovalId: string;
  readonly madeAtMs: UnixMillis;
}

const policyName = (gateId: string, policyHash: string): string => `${gateId} ${policyHash}`;

/** A decision with the evidence that this sidecar may report it. */
export interface ReportedDecision {
  readonly reported: ToldDecision & Pick<AttestationRecord, 'passportId'>;
  readonly tokenHash: string | null;
  readonly callerMode: Mode;
  /** The request presented an approval, or may have taken from a standing one. */
  readonly mayBeApproved: boolean;
}

/**
 * Why this sidecar may not report this decision (contract §9), as a record or a settlement. Null: it may.
 */
export function whyNotReported(
  { reported, tokenHash, callerMode, mayBeApproved }: ReportedDecision,
  sender: RecordSender,
  known: Pick<KnownThings, 'gates' | 'passports'>,
): string | null {
  if (reported.timestampMs > sender.nowMs + attestationsLimits.recordAheadMsMax)
    return 'timestamp_ms is in the future';
  // Includes deleted gates, whose last decisions may arrive late.
  const gate = reported.gateId === null ? undefined : known.gates.get(reported.gateId);
  if (reported.gateId !== null && gate?.accountId !== sender.accountId) {
    return 'gate_id is not a gate of the account of this sidecar';
  }
  if (reported.passportId === null) return null;
  const passport = known.passports.get(reported.passportId);
  if (passport === undefined || !isShown(passport, tokenHash, sender.accountId)) {
    return 'token_hash does not show that this sidecar has seen the token of passport_id';
  }
  return findContradiction(reported, passport, { mode: gate?.mode ?? callerMode, mayBeApproved });
}

function whyNot(
  { record, tokenHash, callerMode }: ShippedRecord,
  sender: RecordSender,
  known: KnownThings,
  mayBeApproved: boolean,
): string | null {
  if (timeOfId(record.id) > sender.nowMs + attestationsLimits.recordAheadMsMax) return 'id is in the future';
  const isOwnChain =
    record.passportId !== null || record.gateId !== null || record.chainId === sender.accountId;
  return (
    whyNotReported({ reported: record, tokenHash, callerMode, mayBeApproved }, sender, known) ??
    (isOwnChain ? null : 'chain_id is not the account of this sidecar') ??
    whyNotHeld(record) ??
    whyNotPolicy(record, known)
  );
}

/** As a request may ask for it (contract §19). */
function whyNotHeld(record: AttestationRecord): string | null {
  const { holdExpiresAtMs, decision, gateId, amountMicroUsd, timestampMs } = record;
  if (holdExpiresAtMs === null) return null;
  if (decision !== 'PERMIT' || gateId === null || amountMicroUsd === null)
    return 'hold_expires_at_ms does not go with what was decided';
  const lastsMs = holdExpiresAtMs - timestampMs;
  return lastsMs < limits.holdExpiryMsMin || lastsMs > limits.holdExpiryMsMax
    ? 'hold_expires_at_ms is not the end of a hold'
    : null;
}

const policyLevel = ({ gateId, policyHash }: AttestationRecord, known: KnownThings): TrustTier | undefined =>
  gateId === null || policyHash === null ? undefined : known.policies.get(policyName(gateId, policyHash));

/** A policy that was lost with a database contradicts nothing; see toNewRecord. */
function whyNotPolicy(record: AttestationRecord, known: KnownThings): string | null {
  const level = policyLevel(record, known);
  return level === undefined || level === record.trustLevel ? null : 'trust_level is not that of policy_hash';
}

function toNewRecord(
  shipped: ShippedRecord & { readonly isApproved: boolean; readonly walletId: WalletId | null },
  accountId: AccountId,
  known: KnownThings,
): NewRecord {
  const { record, callerMode, isApproved, walletId } = shipped;
  const passport = record.passportId === null ? undefined : known.passports.get(record.passportId);
  const gate = record.gateId === null ? undefined : known.gates.get(record.gateId);
  // An export has every policy that its records name, so a record names none that is not on record.
  const isUnknown = record.policyHash !== null && policyLevel(record, known) === undefined;
  const approvalId = record.asserted === null ? null : standingApprovalOf(shipped, known);
  const walletPath = record.passportId === null ? undefined : known.wallets.get(record.passportId);
  return {
    record: {
      ...record,
      policyHash: isUnknown ? null : record.policyHash,
      approvalId: approvalId ?? record.approvalId,
      walletId: record.asserted === null ? null : walletId,
    },
    passportOwner: passport?.owner ?? null,
    gateOwner: gate ?? { accountId, mode: callerMode },
    took: shipped.took,
    facts: shipped.facts,
    ownWindows: passport?.ownWindows,
    walletPath,
    needsApproval:
      !isApproved && record.decision === 'PERMIT' && needsApproval(record, passport?.own?.approvals ?? null),
  };
}

const walletOf = (
  record: AttestationRecord,
  { wallets, pathHistory }: KnownThings,
): WalletId | null | 'never' =>
  walletOfRecord(
    record,
    record.passportId === null ? undefined : wallets.get(record.passportId),
    pathHistory,
  );

/**
 * By its lease, which judgeTakes judges: the sidecar's word does not count. A lease that is gone names none.
 */
const standingApprovalOf = (
  { record: { timestampMs }, took }: Pick<ShippedRecord, 'record' | 'took'>,
  { standingApprovals }: Pick<KnownThings, 'standingApprovals'>,
): string | null =>
  (took ?? [])
    .map((id) => standingApprovals.get(id))
    .find((lease) => lease !== undefined && timestampMs + quotaLimits.leaseClockLeewayMs >= lease.madeAtMs)
    ?.standingApprovalId ?? null;

/** Reads what is needed to judge these records, and suspends to be settled. */
export async function readKnown(
  sql: Database | Transaction,
  shipped: readonly ShippedRecord[],
  suspends: readonly Pick<AttestationRecord, 'gateId' | 'passportId'>[] = [],
): Promise<KnownThings> {
  const about = [...shipped.map(({ record }) => record), ...suspends];
  const gateIds = distinct(about.map(({ gateId }) => gateId));
  const passportIds = distinct(about.map(({ passportId }) => passportId));
  const ids = shipped.map(({ record }) => record.id);
  const hashes = distinct(shipped.map(({ record }) => record.policyHash));
  const took = distinct(shipped.flatMap((each) => each.took ?? []));
  // One statement: outside of a transaction each is a journey to PostgreSQL.
  const ofGates = sql<(GateRow | StandingApprovalLease)[]>`
    SELECT gate_id AS "gateId", account_id AS "accountId", mode, (
        SELECT jsonb_object_agg(policy_hash, policies.trust_level) FROM policies
        WHERE policy_hash = ANY(${hashes}::text[]) AND EXISTS (
          SELECT FROM gate_policies had WHERE had.policy_hash = policies.policy_hash AND had.gate_id = gates.gate_id)
      ) AS policies, NULL AS "leaseId", NULL AS "standingApprovalId", NULL AS "madeAtMs"
    FROM gates WHERE gate_id = ANY(${gateIds}::text[])
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, lease_id, split_part(counter, ':', 3), made_at_ms
    FROM quota_leases WHERE lease_id = ANY(${took}::bigint[]) AND window_name = 'total' AND counter LIKE 'gate!_spend:%' ESCAPE '!'`;
  const ofPassports = sql<PassportRow[]>`
    SELECT passport_id AS "passportId", account_id AS "accountId", mode, token_hash AS "tokenHash", permissions, constraints,
      issued_at_ms AS "issuedAtMs", expires_at_ms AS "expiresAtMs", ${shownTo(sql, 'passports')} AS "shownTo",
      (SELECT ${walletPath(sql)} FROM passport_wallets m WHERE m.passport_id = passports.passport_id) AS "walletPath"
    FROM passports WHERE passport_id = ANY(${passportIds}::text[])`;
  const ofRecords = sql<StoredRecord[]>`
    SELECT ${sql(recordColumns)} FROM records
    WHERE attestation_id = ANY(${`{${ids.map(uuidOfId).join()}}`}::uuid[]) AND position >= records_from(${earliestOf(ids)})`;
  const [gatesAndLeases, passports, stored] = await readTogether(sql, [ofGates, ofPassports, ofRecords]);
  const gates = gatesAndLeases.filter((row) => row.leaseId === null);
  const leases = gatesAndLeases.filter((row) => row.leaseId !== null);
  const owners = sharedOwners();
  const wallets = new Map(
    passports.flatMap(({ passportId, walletPath: path }) =>
      path === null ? [] : [[passportId, path] as const],
    ),
  );
  return {
    wallets,
    pathHistory: await readPathHistory(
      sql,
      shipped.map(({ record }) => record),
      wallets,
    ),
    gates: new Map(gates.map((row) => [row.gateId, owners(row.accountId, row.mode)])),
    passports: new Map(
      passports.map((row) => [row.passportId, factOf(row, owners(row.accountId, row.mode))]),
    ),
    stored: new Map((await attestationsOf(sql, stored)).map((attestation) => [attestation.id, attestation])),
    policies: new Map(
      gates.flatMap(({ gateId, policies }) =>
        Object.entries(policies ?? {}).map(([hash, level]) => [policyName(gateId, hash), level] as const),
      ),
    ),
    standingApprovals: new Map(leases.map((lease) => [lease.leaseId, lease])),
  };
}

/** One object per owner, so that derived values are computed once per batch. */
function sharedOwners(): (accountId: AccountId, mode: Mode) => Owner {
  const known = new Map<string, Owner>();
  return (accountId, mode) => {
    const name = `${accountId} ${mode}`;
    const owner = known.get(name) ?? { accountId, mode };
    known.set(name, owner);
    return owner;
  };
}

interface PassportRow extends Owner, Pick<PassportFact, 'tokenHash' | 'issuedAtMs' | 'expiresAtMs'> {
  readonly passportId: PassportId;
  readonly permissions: readonly string[];
  readonly constraints: unknown;
  readonly shownTo: ShownPassport['shownTo'];
  /** Null: it never was in a wallet. */
  readonly walletPath: WalletPath | null;
}

function factOf(row: PassportRow, owner: Owner): PassportFact {
  // Of another issuer they change with its settings, and the record may be older.
  const own = ownRules(isFederated(row.tokenHash) ? {} : row.constraints);
  const { passportId } = row;
  const { spendWindows, rateWindows } = own ?? { spendWindows: [], rateWindows: [] };
  return {
    owner,
    mode: row.mode,
    tokenHash: row.tokenHash,
    accountId: row.accountId,
    shownTo: row.shownTo,
    isFederated: isFederated(row.tokenHash),
    permissions: new Set(row.permissions),
    own,
    ownWindows: windowsOf({
      gate: null,
      passport: { passportId, spendWindows, rateWindows },
      wallets: row.walletPath?.wallets ?? [],
    }),
    issuedAtMs: row.issuedAtMs,
    expiresAtMs: row.expiresAtMs,
  };
}
