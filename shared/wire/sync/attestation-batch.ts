import { federatedPassportId } from '../../crypto/federated-id.ts';
import { type CheckSet, check, listChecks } from '../../decision/check-set.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import {
  type AttestationRecord,
  type ChainId,
  type PiiFinding,
  type RecordExtras,
  recordProofs,
} from '../../model/attestation.ts';
import { piiTypes } from '../../model/constraints.ts';
import { type CheckName, type DecisionReason, decisionReasons, type Outcome } from '../../model/decision.ts';
import {
  type AccountId,
  type ApprovalId,
  type AttestationId,
  type IssuerId,
  isId,
  type SidecarId,
} from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { isMode, type Mode } from '../../model/mode.ts';
import { amountUsdMax, type MicroUsd, parseMicroUsd, parseUsd } from '../../model/money.ts';
import { isGrantablePermission } from '../../model/permission.ts';
import { isLabel, plainTextPattern } from '../../model/plain-text.ts';
import { isUnixMillis, type UnixMillis } from '../../model/time.ts';
import { trustTiers } from '../../model/trust-tier.ts';
import { parseHost } from '../api/domain.ts';
import type { GivenOutcome } from '../api/outcome.ts';
import { isWalletPath, stateAgeMsMax } from '../evidence/attestation.ts';
import { carriedNames, parseCarried } from '../evidence/carried-members.ts';
import type { ShippedFact } from '../evidence/fact.ts';
import { readFacts } from './shipped-facts.ts';
import { requestOf } from './spooled-record.ts';
import type {
  ChainPart,
  OutcomePart,
  RecordRow,
  RequestPart,
  SpooledExtras,
  SpooledOutcome,
  SpooledRecord,
  VoidRun,
} from './sync.ts';

/** The sidecar that sent a record, and the account of its API key. */
export interface RecordSource {
  readonly sidecarId: SidecarId;
  readonly accountId: AccountId;
}

/** A record from a sidecar: well formed, not yet authorised. */
export interface ShippedRecord {
  readonly kind: 'record';
  readonly record: AttestationRecord;
  readonly tokenHash: string | null;
  /** See SpooledRecord. The id of its passport is derived from both. */
  readonly federated: ReadSubject | null;
  readonly callerMode: Mode;
  /** Leases that the decision took from; null: a PERMIT without this member. */
  readonly took: readonly number[] | null;
  /** What opens commitments of the record; each does. */
  readonly facts: readonly ShippedFact[];
}

/** See SettlementVoid. */
export interface ShippedSettlementVoid {
  readonly kind: 'settlement_void';
  readonly voids: AttestationId | ApprovalId;
  readonly readerId: AttestationId | null;
  /** Null: not known. */
  readonly took: readonly number[] | null;
  readonly amountMicroUsd: MicroUsd | null;
}

/** See SpooledOutcome. */
export interface ShippedOutcome {
  readonly kind: 'outcome';
  readonly attestationId: AttestationId;
  readonly given: GivenOutcome;
  readonly callerMode: Mode;
  readonly reportedAtMs: UnixMillis;
}

export interface ShippedVoid {
  readonly kind: 'void';
  readonly reason: VoidRun['void'];
  readonly count: number;
}

/** Why an element of a batch is malformed. The message names the field, never its value. */
export interface Malformed {
  readonly kind: 'malformed';
  readonly message: string;
}

/**
 * The envelope of a batch. Its elements are parsed one by one, so that an error names the bad one by number.
 */
export interface ShippedBatch {
  readonly sidecarId: SidecarId;
  readonly connectionId: string;
  readonly epoch: string;
  readonly firstSeq: number;
  readonly items: readonly unknown[];
  /** Null: more records of the epoch may follow. */
  readonly end: { readonly nothingLost: boolean; readonly tornBytes: number } | null;
}

const batchMembers = new Set([
  ...['sidecar_id', 'connection_id', 'epoch', 'first_seq', 'form', 'facts', 'records', 'end'],
]);
const epochPattern = /^[0-9a-f]{32}$/;

/**
 * Reads the envelope of a batch. Throws `invalid_request` naming the field. Only a batch that ends its epoch
 * may be empty.
 */
export function parseAttestationBatch(body: unknown): ShippedBatch {
  if (!isObject(body)) throw invalidRequest('body', 'The body must be an object.');
  for (const name of Object.keys(body)) {
    if (!batchMembers.has(name)) throw invalidRequest(name, 'There is no such field.');
  }
  const { sidecar_id, connection_id, epoch, first_seq, form, records } = body;
  if (form !== undefined && form !== 2) throw invalidRequest('form', 'Must be 2, or absent.');
  if (body['facts'] !== undefined && body['facts'] !== true)
    throw invalidRequest('facts', 'Must be true, or absent.');
  const end = parseEnd(body['end']);
  if (!isId('side', sidecar_id)) throw invalidRequest('sidecar_id', 'Must be the id of a sidecar.');
  if (typeof connection_id !== 'string') throw invalidRequest('connection_id', 'Must be a text.');
  if (typeof epoch !== 'string' || !epochPattern.test(epoch)) {
    throw invalidRequest('epoch', 'Must be 32 lower-case hex characters.');
  }
  if (!isCount(first_seq)) throw invalidRequest('first_seq', 'Must be an integer from 1.');
  const recordsMin = end === null ? 1 : 0;
  const count = Array.isArray(records) ? records.filter((item) => !isSharedParts(item)).length : -1;
  if (!Array.isArray(records) || count < recordsMin || count > limits.ingestRecordsMax) {
    throw invalidRequest(
      'records',
      `Must be an array of ${recordsMin} to ${limits.ingestRecordsMax} records.`,
    );
  }
  return {
    sidecarId: sidecar_id,
    connectionId: connection_id,
    epoch,
    firstSeq: first_seq,
    items: records,
    end,
  };
}

function parseEnd(end: unknown): ShippedBatch['end'] {
  if (end === undefined) return null;
  if (!isObject(end)) throw invalidRequest('end', 'Must be an object.');
  const { nothing_lost: nothingLost, torn_bytes: tornBytes } = end;
  if (typeof nothingLost !== 'boolean') throw invalidRequest('end.nothing_lost', 'Must be true or false.');
  if (tornBytes !== 0 && !isCount(tornBytes))
    throw invalidRequest('end.torn_bytes', 'Must be an integer from 0.');
  return { nothingLost, tornBytes };
}

/**
 * Reads one element of a batch. Total: never throws. Checks shape, closed lists and the consistency of the
 * fields; authorisation is not checked. `shared`: the SharedParts before the element, as read.
 */
export function parseBatchItem(
  value: unknown,
  source: RecordSource,
  shared: ReadParts = noParts,
): ShippedRecord | ShippedOutcome | ShippedSettlementVoid | ShippedVoid | Malformed {
  if (Array.isArray(value)) return parseRow(value, source, shared);
  if (!isObject(value)) return malformed('a record must be an object or a row');
  if ('outcome' in value) return parseShippedOutcome(value);
  if ('void' in value) return parseVoidRun(value);
  if ('voids' in value) return parseSettlementVoid(value);
  if (hasOthers(value, members)) return unknownField();
  return recordOf(readRequest(value), readChain(value), readOutcome(value), source);
}

const row1Members = 7;
const row2Members = 9;

/** A RecordRow. */
function parseRow(
  row: readonly unknown[],
  source: RecordSource,
  { chains, outcomes }: ReadParts,
): ShippedRecord | Malformed {
  if (row.length !== row1Members && row.length !== row2Members)
    return malformed('a row has seven or nine members');
  const chain = row[row.length - 2];
  const outcome = row[row.length - 1];
  return recordOf(
    readRequest(requestOf(row as RecordRow)),
    partAt(chains, chain, 'chain'),
    partAt(outcomes, outcome, 'outcome'),
    source,
  );
}

/** The first bad part names the fault of the record. */
function recordOf(
  request: ReadRequest | Malformed,
  chain: ReadChain | Malformed,
  outcome: ReadOutcome | Malformed,
  source: RecordSource,
): ShippedRecord | Malformed {
  if ('kind' in request) return request;
  if ('kind' in chain) return malformed(chain.message);
  if ('kind' in outcome) return malformed(outcome.message);
  if ((request.extras === undefined) !== (outcome.policy === undefined)) return notValid('outcome');
  if (request.extras === undefined && chain.walletPath !== null) return notValid('wallet_path');
  const contradiction = findContradiction(request, chain, outcome);
  if (contradiction !== null) return malformed(contradiction);
  return {
    kind: 'record',
    record: toRecord(request, chain, outcome, source),
    tokenHash: chain.tokenHash,
    federated: chain.federated,
    callerMode: outcome.callerMode,
    took: request.took ?? (outcome.decision === 'PERMIT' ? null : []),
    facts: request.extras?.facts ?? noFacts,
  };
}

/**
 * SharedParts, the only elements of a batch without a number of their own. A value with an id is a record,
 * however bad.
 */
export const isSharedParts = (value: unknown): value is object =>
  isObject(value) && 'chains' in value && !('id' in value);

/** When the first record of a batch was decided, in either form; null: the batch has none. */
export function firstTimeMs(items: readonly unknown[]): number | null {
  for (const item of items) {
    const timeMs = Array.isArray(item) ? item[3] : isObject(item) ? item['timestamp_ms'] : null;
    if (isUnixMillis(timeMs)) return timeMs;
  }
  return null;
}

/** A fault of a part is a fault of each record that names it. */
export interface ReadParts {
  readonly chains: readonly (ReadChain | Malformed)[];
  readonly outcomes: readonly (ReadOutcome | Malformed)[];
}

const noParts: ReadParts = { chains: [], outcomes: [] };

/** Reads SharedParts. Total, as `parseBatchItem` is. */
export function readSharedParts(value: object): ReadParts {
  const { chains, outcomes }: { readonly chains?: unknown; readonly outcomes?: unknown } = value;
  return {
    chains: partsOf(chains).map((part) => (hasOthers(part, chainMembers) ? unknownField() : readChain(part))),
    outcomes: partsOf(outcomes).map((part) =>
      hasOthers(part, outcomeMembers) ? unknownField() : readOutcome(part),
    ),
  };
}

const partsOf = (list: unknown): readonly Fields[] =>
  Array.isArray(list) ? list.map((part) => (isObject(part) ? part : {})) : [];

const partAt = <Part>(
  parts: readonly (Part | Malformed)[],
  index: unknown,
  name: 'chain' | 'outcome',
): Part | Malformed => (typeof index === 'number' ? parts[index] : undefined) ?? notValid(name);

function parseVoidRun(value: Readonly<Record<string, unknown>>): ShippedVoid | Malformed {
  const { void: reason, count } = value;
  if (Object.keys(value).length !== 2) return malformed('unknown field');
  if (reason !== 'refused' && reason !== 'damaged' && reason !== 'missing')
    return malformed('void is not valid');
  if (!isCount(count)) return malformed('count is not valid');
  return { kind: 'void', reason, count };
}

const outcomeMembers1: ReadonlySet<string> = new Set([
  'outcome',
  'attestation_id',
  'amount_micro_usd',
  'detail',
  'caller_mode',
  'timestamp_ms',
] satisfies (keyof SpooledOutcome)[]);

function parseShippedOutcome(value: Readonly<Record<string, unknown>>): ShippedOutcome | Malformed {
  const { outcome, attestation_id: id, amount_micro_usd: amount, detail, caller_mode: mode } = value;
  if (Object.keys(value).some((name) => !outcomeMembers1.has(name))) return malformed('unknown field');
  if (outcome !== 'served' && outcome !== 'failed') return malformed('outcome is not valid');
  if (!isId('att', id)) return malformed('attestation_id is not valid');
  const amountMicroUsd = amount === null ? null : parseMicroUsd(amount);
  if (amount !== null && (amountMicroUsd === null || amountMicroUsd > amountMax))
    return malformed('amount_micro_usd is not valid');
  if (outcome === 'failed' && amountMicroUsd !== null) return malformed('amount_micro_usd is not valid');
  const isDetail =
    detail === null ||
    (typeof detail === 'string' &&
      detail.length <= limits.outcomeDetailCharsMax &&
      detail.isWellFormed() &&
      plainTextPattern.test(detail));
  if (!isDetail) return malformed('detail is not valid');
  if (!isMode(mode)) return malformed('caller_mode is not valid');
  if (!isUnixMillis(value['timestamp_ms'])) return malformed('timestamp_ms is not valid');
  return {
    kind: 'outcome',
    attestationId: id,
    given: { outcome, amountMicroUsd, detail },
    callerMode: mode,
    reportedAtMs: value['timestamp_ms'],
  };
}

const amountMax = parseUsd(amountUsdMax) ?? 0;

const settlementVoidMembers = new Set(['voids', 'reader_id', 'took', 'amount_micro_usd', 'timestamp_ms']);

function parseSettlementVoid(value: Readonly<Record<string, unknown>>): ShippedSettlementVoid | Malformed {
  const { voids, reader_id: readerId, took, amount_micro_usd: amount } = value;
  if (Object.keys(value).some((name) => !settlementVoidMembers.has(name))) return malformed('unknown field');
  if (!isId('att', voids) && !isId('appr', voids)) return malformed('voids is not valid');
  if (readerId !== undefined && !isId('att', readerId)) return malformed('reader_id is not valid');
  if (took !== undefined && !isListOfLeases(took)) return malformed('took is not valid');
  const amountMicroUsd = amount === null ? null : parseMicroUsd(amount);
  if (amount !== null && amountMicroUsd === null) return malformed('amount_micro_usd is not valid');
  if (!isUnixMillis(value['timestamp_ms'])) return malformed('timestamp_ms is not valid');
  return { kind: 'settlement_void', voids, readerId: readerId ?? null, took: took ?? null, amountMicroUsd };
}

type Fields = Readonly<Record<string, unknown>>;

/** A RequestPart with validated fields. */
interface ReadRequest
  extends Pick<AttestationRecord, 'id' | 'requestHash' | 'amountMicroUsd' | 'timestampMs'> {
  readonly took: readonly number[] | undefined;
  /** Undefined: in form 1. */
  readonly extras: ReadExtras | undefined;
}

interface ReadExtras
  extends Pick<RecordExtras, 'stateAgeMs' | 'domain' | 'holdExpiresAtMs' | 'proof' | 'asserted' | 'carried'> {
  readonly facts: readonly ShippedFact[];
}

const noFacts: readonly ShippedFact[] = Object.freeze([]);
const noExtras = { domain: null, holdExpiresAtMs: null, proof: null, carried: null, facts: noFacts };

/** The subject of an issuer of others. */
export interface ReadSubject {
  readonly issuerId: IssuerId;
  readonly subject: string;
}

interface ReadChain extends Pick<AttestationRecord, 'chainId' | 'passportId'> {
  readonly tokenHash: string | null;
  readonly federated: ReadSubject | null;
  readonly walletPath: RecordExtras['walletPath'];
}

interface ReadOutcome
  extends Pick<
    AttestationRecord,
    'gateId' | 'decision' | 'reason' | 'permissionKey' | 'constraintsEvaluated' | 'pii'
  > {
  readonly callerMode: Mode;
  /** Undefined: in form 1. */
  readonly policy: Pick<RecordExtras, 'policyHash' | 'trustLevel'> | undefined;
}

const requestMembers = [
  'id',
  'request_hash',
  'amount_micro_usd',
  'timestamp_ms',
  'took',
  'state_age_ms',
  'extras',
] as const satisfies (keyof RequestPart)[];
const chainMembers: ReadonlySet<string> = new Set([
  'chain_id',
  'passport_id',
  'token_hash',
  'federated',
  'wallet_path',
] satisfies (keyof ChainPart)[]);
const outcomeMembers: ReadonlySet<string> = new Set([
  'gate_id',
  'decision',
  'reason',
  'permission_key',
  'constraints_evaluated',
  'pii',
  'caller_mode',
  'policy_hash',
  'trust_level',
] satisfies (keyof OutcomePart)[]);
const extrasMembers: ReadonlySet<string> = new Set([
  'domain',
  'hold_expires_at_ms',
  'proof',
  'asserted',
  'fact_values',
  ...carriedNames,
] satisfies (keyof SpooledExtras)[]);
const members: ReadonlySet<string> = new Set([...requestMembers, ...chainMembers, ...outcomeMembers]);

function hasOthers(value: Fields, known: ReadonlySet<string>): boolean {
  // Parsed JSON has no inherited members.
  for (const name in value) if (!known.has(name)) return true;
  return false;
}

const isText = (value: unknown, pattern: RegExp): value is string =>
  typeof value === 'string' && pattern.test(value);
const oneOf = <Word extends string>(list: readonly Word[]): ((value: unknown) => value is Word) => {
  const known: ReadonlySet<unknown> = new Set(list);
  return (value): value is Word => known.has(value);
};
// A SUSPEND is attested by the control plane, when it is resolved (contract §8).
const isShippedDecision = oneOf<Outcome>(['PERMIT', 'BLOCK']);
const isReason = oneOf(decisionReasons);
const isProof = oneOf(recordProofs);
const isTier = oneOf(trustTiers);
const isChainId = (value: unknown): value is ChainId =>
  isId('pass', value) || isId('gate', value) || isId('acct', value);
const hashPattern = /^sha256:[0-9a-f]{64}$/;
const tokenHashPattern = /^[0-9a-f]{64}$/;

// A missing field is undefined, which only `took` and the members of form 2 may be. Written out: a batch has
// a thousand records, and a list of readers took twice as long.

function readRequest(value: { readonly [Name in keyof RequestPart]?: unknown }): ReadRequest | Malformed {
  const { id, request_hash, amount_micro_usd, timestamp_ms, took, state_age_ms } = value;
  if (!isId('att', id)) return notValid('id');
  if (!isText(request_hash, hashPattern)) return notValid('request_hash');
  const amountMicroUsd = amount_micro_usd === null ? null : parseMicroUsd(amount_micro_usd);
  if (amount_micro_usd !== null && amountMicroUsd === null) return notValid('amount_micro_usd');
  if (!isUnixMillis(timestamp_ms)) return notValid('timestamp_ms');
  if (took !== undefined && !isListOfLeases(took)) return notValid('took');
  const extras =
    state_age_ms === undefined && value.extras === undefined
      ? undefined
      : readExtras(state_age_ms, value.extras);
  if (extras === null) return notValid('extras');
  return { id, requestHash: request_hash, amountMicroUsd, timestampMs: timestamp_ms, took, extras };
}

/** Null for a bad member. */
function readExtras(stateAgeMs: unknown, extras: unknown): ReadExtras | null {
  if (stateAgeMs !== null && !isStateAge(stateAgeMs)) return null;
  if (extras === null) return { stateAgeMs, asserted: false, ...noExtras };
  if (!isObject(extras) || hasOthers(extras, extrasMembers)) return null;
  const { domain = null, hold_expires_at_ms: holdExpiresAtMs = null, proof = null, asserted } = extras;
  if (domain !== null && (typeof domain !== 'string' || parseHost(domain) !== domain)) return null;
  if (holdExpiresAtMs !== null && !isUnixMillis(holdExpiresAtMs)) return null;
  if (proof !== null && !isProof(proof)) return null;
  if (asserted !== undefined && asserted !== true) return null;
  const carried = parseCarried(extras);
  if (carried === undefined) return null;
  const facts = extras['fact_values'] === undefined ? noFacts : readFacts(extras['fact_values'], carried);
  if (facts === null) return null;
  return { stateAgeMs, domain, holdExpiresAtMs, proof, asserted: asserted === true, carried, facts };
}

const isStateAge = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= stateAgeMsMax;

function readChain(value: Fields): ReadChain | Malformed {
  const { chain_id, passport_id, token_hash } = value;
  if (!isChainId(chain_id)) return notValid('chain_id');
  if (passport_id !== null && !isId('pass', passport_id)) return notValid('passport_id');
  if (token_hash !== null && !isText(token_hash, tokenHashPattern)) return notValid('token_hash');
  const federated = value['federated'] === undefined ? null : readSubject(value['federated']);
  if (federated !== null && 'kind' in federated) return federated;
  if (federated !== null && federatedPassportId(federated.issuerId, federated.subject) !== passport_id)
    return malformed('passport_id is not that of the subject in federated');
  const walletPath = value['wallet_path'] ?? null;
  if (walletPath !== null && (passport_id === null || !isWalletPath(walletPath)))
    return notValid('wallet_path');
  return { chainId: chain_id, passportId: passport_id, tokenHash: token_hash, federated, walletPath };
}

function readSubject(value: unknown): ReadSubject | Malformed {
  if (!isObject(value)) return notValid('federated');
  const { issuer_id: issuerId, subject } = value;
  return isId('iss', issuerId) && isLabel(subject, limits.foreignSubjectCharsMax)
    ? { issuerId, subject }
    : notValid('federated');
}

function readOutcome(value: Fields): ReadOutcome | Malformed {
  const { gate_id, decision, reason, permission_key, constraints_evaluated, pii, caller_mode } = value;
  if (gate_id !== null && !isId('gate', gate_id)) return notValid('gate_id');
  if (!isShippedDecision(decision)) return notValid('decision');
  if (reason !== null && !isReason(reason)) return notValid('reason');
  if (permission_key !== null && !isGrantablePermission(permission_key)) return notValid('permission_key');
  const constraintsEvaluated = readChecks(constraints_evaluated);
  if (constraintsEvaluated === null) return notValid('constraints_evaluated');
  if (!isListOfFindings(pii)) return notValid('pii');
  if (!isMode(caller_mode)) return notValid('caller_mode');
  const policy = readPolicy(value);
  if (policy === null) return notValid('policy_hash');
  return {
    gateId: gate_id,
    decision,
    reason,
    permissionKey: permission_key,
    constraintsEvaluated,
    pii: pii.length === 0 ? none : pii.map(({ pointer, type }) => ({ pointer, type })),
    callerMode: caller_mode,
    policy,
  };
}

/** Undefined: in form 1. Null: malformed. */
function readPolicy({ policy_hash, trust_level }: Fields): ReadOutcome['policy'] | null {
  if (policy_hash === undefined && trust_level === undefined) return undefined;
  if (policy_hash !== null && !isText(policy_hash, hashPattern)) return null;
  if (trust_level !== null && !isTier(trust_level)) return null;
  return { policyHash: policy_hash, trustLevel: trust_level };
}

/** Each at most once. */
const isListOfLeases = (value: unknown): value is readonly number[] =>
  Array.isArray(value) &&
  value.length <= limits.leasesPerRecordMax &&
  value.every(isCount) &&
  new Set(value).size === value.length;

const checkBits: ReadonlyMap<unknown, CheckSet> = new Map(Object.entries(check));

/** Names of checks, each at most once and in their order (contract §5); null: anything else. */
function readChecks(value: unknown): readonly CheckName[] | null {
  if (!Array.isArray(value)) return null;
  let set: CheckSet = 0;
  for (const name of value) {
    const bit = checkBits.get(name);
    // Later checks have higher bits.
    if (bit === undefined || bit <= set) return null;
    set |= bit;
  }
  return listChecks(set);
}

/** RFC 6901, without U+0000, which PostgreSQL cannot store. */
const pointerPattern = /^(?:\/[^\0]*)?$/;

/** `unscanned`: the request was too long to be scanned whole (contract §7). */
const isFindingType = oneOf([...piiTypes, 'unscanned']);

function isListOfFindings(value: unknown): value is readonly PiiFinding[] {
  if (!Array.isArray(value) || value.length > limits.piiFindingsMax) return false;
  return value.every(
    (finding: unknown) =>
      isObject(finding) &&
      Object.keys(finding).length === 2 &&
      isFindingType(finding['type']) &&
      isText(finding['pointer'], pointerPattern) &&
      String(finding['pointer']).length <= limits.piiPointerCharsMax &&
      // A lone surrogate has no UTF-8.
      String(finding['pointer']).isWellFormed(),
  );
}

/** Reasons for which no passport verified: such a record belongs to no passport's chain (contract §9). */
const refusals: ReadonlySet<DecisionReason | null> = new Set<DecisionReason>([
  'passport_malformed',
  'passport_signature_invalid',
  'passport_unknown_key',
  'issuer_untrusted',
]);

function findContradiction(
  { took }: ReadRequest,
  { chainId, passportId, tokenHash }: ReadChain,
  { gateId, decision, reason }: ReadOutcome,
): string | null {
  if ((decision === 'PERMIT') !== (reason === null)) return 'reason does not go with decision';
  if (decision !== 'PERMIT' && took !== undefined) return 'took does not go with decision';
  if ((passportId === null) !== (tokenHash === null)) return 'token_hash does not go with passport_id';
  if (passportId === null && (decision !== 'BLOCK' || !refusals.has(reason))) {
    return 'a decision without a passport blocks because of its token';
  }
  const prescribed = passportId ?? gateId;
  if (prescribed === null ? !isId('acct', chainId) : chainId !== prescribed) {
    return 'chain_id is not the chain this record belongs to';
  }
  return null;
}

/** Most records have no findings. */
const none: readonly PiiFinding[] = Object.freeze([]);

const toRecord = (
  request: ReadRequest,
  chain: ReadChain,
  outcome: ReadOutcome,
  source: RecordSource,
): AttestationRecord => ({
  id: request.id,
  chainId: chain.chainId,
  passportId: chain.passportId,
  gateId: outcome.gateId,
  decision: outcome.decision,
  reason: outcome.reason,
  requestHash: request.requestHash,
  permissionKey: outcome.permissionKey,
  amountMicroUsd: request.amountMicroUsd,
  constraintsEvaluated: outcome.constraintsEvaluated,
  pii: outcome.pii,
  test: false,
  resolution: null,
  refersTo: null,
  source: source.sidecarId,
  sourceAccount: source.accountId,
  timestampMs: request.timestampMs,
  policyHash: outcome.policy?.policyHash ?? null,
  trustLevel: outcome.policy?.trustLevel ?? null,
  domain: request.extras?.domain ?? null,
  stateAgeMs: request.extras?.stateAgeMs ?? null,
  approvalId: null,
  walletId: null,
  walletPath: chain.walletPath,
  holdExpiresAtMs: request.extras?.holdExpiresAtMs ?? null,
  proof: request.extras?.proof ?? null,
  asserted: request.extras?.asserted ?? null,
  carried: request.extras?.carried ?? null,
});

const malformed = (message: string): Malformed => ({ kind: 'malformed', message });
const unknownField = (): Malformed => malformed('unknown field');
const notValid = (name: keyof SpooledRecord | 'chain' | 'outcome'): Malformed =>
  malformed(`${name} is not valid`);

/** Beyond any count of one start of a sidecar. The counts of a whole batch of voids still add up exactly. */
const countMax = 1e12;

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= countMax;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
