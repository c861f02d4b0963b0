import { type CheckSet, check, listChecks } from '../decision/check-set.ts';
import { invalidRequest } from '../errors/api-error.ts';
import { must } from '../errors/assert.ts';
import type { AttestationRecord, ChainId, PiiFinding } from '../model/attestation.ts';
import { piiTypes } from '../model/constraints.ts';
import { type CheckName, type DecisionReason, decisionReasons, type Outcome } from '../model/decision.ts';
import {
  type AccountId,
  type ApprovalId,
  type AttestationId,
  type GateId,
  isId,
  type PassportId,
  type SidecarId,
} from '../model/ids.ts';
import { limits } from '../model/limits.ts';
import { isMode, type Mode } from '../model/mode.ts';
import { type MicroUsd, parseMicroUsd } from '../model/money.ts';
import { isGrantablePermission } from '../model/permission.ts';
import { isUnixMillis } from '../model/time.ts';
import { checksJson } from './checks-json.ts';
import type { SpooledRecord, VoidRun } from './sync.ts';

/**
 * The JSON text of a record, the same that JSON.stringify gives of the members in this order, in a third of
 * its time: the members are known, and all texts but the pointers consist of characters that JSON does not
 * escape (ids, hashes, keys and words of closed lists). In three parts, by how often they change: whoever
 * renders many records makes the second and the third once.
 */
export const renderSpooledRecord = (record: SpooledRecord): string =>
  recordOfRequest(record.id, record.request_hash, record.amount_micro_usd, record.timestamp_ms, record.took) +
  recordOfChain(record) +
  recordOfOutcome(record);

/** What differs with each request, and the beginning of the text. */
export const recordOfRequest = (
  id: string,
  requestHash: string,
  amountMicroUsd: number | null,
  timestampMs: number,
  took: readonly number[] | undefined,
): string =>
  `{"id":"${id}","request_hash":"${requestHash}","amount_micro_usd":${amountMicroUsd}` +
  `,"timestamp_ms":${timestampMs}${took === undefined ? '' : `,"took":[${took.join()}]`}`;

/** The same for all requests of a passport. */
export const recordOfChain = ({
  chain_id,
  passport_id,
  token_hash,
}: Pick<SpooledRecord, 'chain_id' | 'passport_id' | 'token_hash'>): string =>
  `,"chain_id":"${chain_id}","passport_id":${plain(passport_id)},"token_hash":${plain(token_hash)}`;

/** The same for all requests of one kind at a gate; the end of the text. */
export const recordOfOutcome = (
  record: Pick<
    SpooledRecord,
    'gate_id' | 'decision' | 'reason' | 'permission_key' | 'constraints_evaluated' | 'pii' | 'caller_mode'
  >,
): string =>
  `,"gate_id":${plain(record.gate_id)},"decision":"${record.decision}","reason":${plain(record.reason)}` +
  `,"permission_key":${plain(record.permission_key)}` +
  `,"constraints_evaluated":${checksJson(record.constraints_evaluated)}` +
  `,"pii":${record.pii.length === 0 ? '[]' : JSON.stringify(record.pii)}` +
  `,"caller_mode":"${record.caller_mode}"}`;

const plain = (text: string | null): string => (text === null ? 'null' : `"${text}"`);

/** Which sidecar sent a record, and the account of the key that it sent it with. */
export interface RecordSource {
  readonly sidecarId: SidecarId;
  readonly accountId: AccountId;
}

/** A record as it came from a sidecar: well formed, and not yet authorised. */
export interface ShippedRecord {
  readonly kind: 'record';
  readonly record: AttestationRecord;
  readonly tokenHash: string | null;
  readonly callerMode: Mode;
  /** Leases that the decision took from; null: a PERMIT that does not say. */
  readonly took: readonly number[] | null;
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

export interface ShippedVoid {
  readonly kind: 'void';
  readonly reason: VoidRun['void'];
  readonly count: number;
}

/** What is wrong with an element of a batch. The message names the field, never its value. */
export interface Malformed {
  readonly kind: 'malformed';
  readonly message: string;
}

/**
 * The envelope of a batch; its elements are parsed one by one, so that a bad one can be named by its number.
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

const batchMembers = new Set(['sidecar_id', 'connection_id', 'epoch', 'first_seq', 'records', 'end']);
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
  const { sidecar_id, connection_id, epoch, first_seq, records } = body;
  const end = parseEnd(body['end']);
  if (!isId('side', sidecar_id)) throw invalidRequest('sidecar_id', 'Must be the id of a sidecar.');
  if (typeof connection_id !== 'string') throw invalidRequest('connection_id', 'Must be a text.');
  if (typeof epoch !== 'string' || !epochPattern.test(epoch)) {
    throw invalidRequest('epoch', 'Must be 32 lower-case hex characters.');
  }
  if (!isCount(first_seq)) throw invalidRequest('first_seq', 'Must be an integer from 1.');
  const recordsMin = end === null ? 1 : 0;
  if (!Array.isArray(records) || records.length < recordsMin || records.length > limits.ingestRecordsMax) {
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
 * Reads one element of a batch. Total: whatever the value, the answer is a value. Checks shape, closed lists
 * and what the fields say about each other; not whether the sidecar may say it.
 */
export function parseBatchItem(
  value: unknown,
  source: RecordSource,
): ShippedRecord | ShippedSettlementVoid | ShippedVoid | Malformed {
  if (!isObject(value)) return malformed('a record must be an object');
  if ('void' in value) return parseVoidRun(value);
  if ('voids' in value) return parseSettlementVoid(value);
  const fault = findFault(value);
  if (fault !== null) return malformed(fault);
  // Each field was looked at just above: this is the parsing edge, where the text becomes a record.
  const record = value as unknown as CheckedRecord;
  const contradiction = findContradiction(record);
  if (contradiction !== null) return malformed(contradiction);
  return {
    kind: 'record',
    record: toRecord(record, source),
    tokenHash: record.token_hash,
    callerMode: record.caller_mode,
    took: record.took ?? (record.decision === 'PERMIT' ? null : []),
  };
}

function parseVoidRun(value: Readonly<Record<string, unknown>>): ShippedVoid | Malformed {
  const { void: reason, count } = value;
  if (Object.keys(value).length !== 2) return malformed('unknown field');
  if (reason !== 'refused' && reason !== 'damaged' && reason !== 'missing')
    return malformed('void is not valid');
  if (!isCount(count)) return malformed('count is not valid');
  return { kind: 'void', reason, count };
}

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

/** A SpooledRecord whose fields were each looked at. */
interface CheckedRecord {
  readonly id: AttestationRecord['id'];
  readonly chain_id: ChainId;
  readonly passport_id: PassportId | null;
  readonly gate_id: GateId | null;
  readonly decision: Outcome;
  readonly reason: DecisionReason | null;
  readonly request_hash: string;
  readonly permission_key: AttestationRecord['permissionKey'];
  readonly amount_micro_usd: AttestationRecord['amountMicroUsd'];
  readonly constraints_evaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
  readonly timestamp_ms: AttestationRecord['timestampMs'];
  readonly token_hash: string | null;
  readonly caller_mode: Mode;
  readonly took?: readonly number[];
}

const members: ReadonlySet<string> = new Set([
  'id',
  'chain_id',
  'passport_id',
  'gate_id',
  'decision',
  'reason',
  'request_hash',
  'permission_key',
  'amount_micro_usd',
  'constraints_evaluated',
  'pii',
  'timestamp_ms',
  'token_hash',
  'caller_mode',
  'took',
] satisfies (keyof SpooledRecord)[]);

const isText = (value: unknown, pattern: RegExp): boolean => typeof value === 'string' && pattern.test(value);
const oneOf = (list: readonly string[]): ((value: unknown) => boolean) => {
  const known: ReadonlySet<unknown> = new Set(list);
  return (value) => known.has(value);
};
// A SUSPEND is attested by the control plane, when it is resolved (contract §8).
const isShippedDecision = oneOf(['PERMIT', 'BLOCK'] satisfies Outcome[]);
const isReason = oneOf(decisionReasons);
const isChainId = (value: unknown): boolean =>
  isId('pass', value) || isId('gate', value) || isId('acct', value);
const hashPattern = /^sha256:[0-9a-f]{64}$/;
const tokenHashPattern = /^[0-9a-f]{64}$/;

/**
 * What is wrong with a field of a SpooledRecord; a missing field is undefined, which none of them may be but
 * `took`. Written out: a thousand records come with a batch, and a list of readers took twice as long.
 */
function findFault(value: Readonly<Record<string, unknown>>): string | null {
  // Parsed JSON has no inherited members.
  for (const name in value) if (!members.has(name)) return 'unknown field';
  const { passport_id, gate_id, reason, permission_key, amount_micro_usd, token_hash, took } = value;
  if (!isId('att', value['id'])) return notValid('id');
  if (!isChainId(value['chain_id'])) return notValid('chain_id');
  if (passport_id !== null && !isId('pass', passport_id)) return notValid('passport_id');
  if (gate_id !== null && !isId('gate', gate_id)) return notValid('gate_id');
  if (!isShippedDecision(value['decision'])) return notValid('decision');
  if (reason !== null && !isReason(reason)) return notValid('reason');
  if (!isText(value['request_hash'], hashPattern)) return notValid('request_hash');
  if (permission_key !== null && !isGrantablePermission(permission_key)) return notValid('permission_key');
  if (amount_micro_usd !== null && parseMicroUsd(amount_micro_usd) === null)
    return notValid('amount_micro_usd');
  if (readChecks(value['constraints_evaluated']) === null) return notValid('constraints_evaluated');
  if (!isListOfFindings(value['pii'])) return notValid('pii');
  if (!isUnixMillis(value['timestamp_ms'])) return notValid('timestamp_ms');
  if (token_hash !== null && !isText(token_hash, tokenHashPattern)) return notValid('token_hash');
  if (!isMode(value['caller_mode'])) return notValid('caller_mode');
  if (took !== undefined && !isListOfLeases(took)) return notValid('took');
  return null;
}

const notValid = (name: keyof SpooledRecord): string => `${name} is not valid`;

/** Each at most once. */
const isListOfLeases = (value: unknown): value is readonly number[] =>
  Array.isArray(value) &&
  value.length <= limits.leasesPerRecordMax &&
  value.every(isCount) &&
  new Set(value).size === value.length;

const checkBits: ReadonlyMap<unknown, CheckSet> = new Map(Object.entries(check));

/**
 * Names of checks, each at most once and in the order in which they run (contract §5); null: it is no such
 * list.
 */
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

/** RFC 6901, without U+0000, which PostgreSQL cannot hold. */
const pointerPattern = /^(?:\/[^\0]*)?$/;

/** `unscanned` says that a request was too long to look at as a whole (contract §7). */
const isFindingType = oneOf([...piiTypes, 'unscanned']);

function isListOfFindings(value: unknown): boolean {
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

/** Reasons that say that no passport verified: such a record belongs to no passport's chain (contract §9). */
const refusals: ReadonlySet<DecisionReason | null> = new Set<DecisionReason>([
  'passport_malformed',
  'passport_signature_invalid',
  'passport_unknown_key',
]);

function findContradiction(record: CheckedRecord): string | null {
  const { passport_id, gate_id, chain_id, decision, reason } = record;
  if ((decision === 'PERMIT') !== (reason === null)) return 'reason does not go with decision';
  if (decision !== 'PERMIT' && record.took !== undefined) return 'took does not go with decision';
  if ((passport_id === null) !== (record.token_hash === null))
    return 'token_hash does not go with passport_id';
  if (passport_id === null && (decision !== 'BLOCK' || !refusals.has(reason))) {
    return 'a decision without a passport blocks because of its token';
  }
  const prescribed = passport_id ?? gate_id;
  if (prescribed === null ? !isId('acct', chain_id) : chain_id !== prescribed) {
    return 'chain_id is not the chain this record belongs to';
  }
  return null;
}

/** Most records have no findings. */
const none: readonly PiiFinding[] = Object.freeze([]);

const toRecord = (record: CheckedRecord, source: RecordSource): AttestationRecord => ({
  id: record.id,
  chainId: record.chain_id,
  passportId: record.passport_id,
  gateId: record.gate_id,
  decision: record.decision,
  reason: record.reason,
  requestHash: record.request_hash,
  permissionKey: record.permission_key,
  amountMicroUsd: record.amount_micro_usd,
  constraintsEvaluated: must(readChecks(record.constraints_evaluated), 'the list of checks was looked at'),
  pii: record.pii.length === 0 ? none : record.pii.map(({ pointer, type }) => ({ pointer, type })),
  test: false,
  resolution: null,
  refersTo: null,
  source: source.sidecarId,
  sourceAccount: source.accountId,
  timestampMs: record.timestamp_ms,
});

const malformed = (message: string): Malformed => ({ kind: 'malformed', message });

/**
 * More than a sidecar can count to in one start; the numbers of a whole batch of such voids still add up
 * exactly.
 */
const countMax = 1e12;

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= countMax;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
