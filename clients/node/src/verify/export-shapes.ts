import { isObject, type Json } from './canonical.ts';

/** The members of the lines of an export (docs/verify.md, 1 and 2). */

type Check = (value: unknown) => boolean;
type Members = Readonly<Record<string, Check>>;

const text: Check = (value) => typeof value === 'string';
const truth: Check = (value) => typeof value === 'boolean';
const integer: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const positive: Check = (value) => integer(value) && value !== 0;
const matching =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === 'string' && pattern.test(value);
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check, countMax = Number.POSITIVE_INFINITY): Check =>
  (value) =>
    Array.isArray(value) && value.length <= countMax && value.every(check);
const idOf = (prefixes: string): Check =>
  matching(new RegExp(`^(?:${prefixes})_[0-7][0-9a-hjkmnp-tv-z]{25}$`));
const hash = matching(/^sha256:[0-9a-f]{64}$/);
const kid = matching(/^[\w-]{43}$/);
const timeForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
// Null for a day that is none.
const time: Check = (value) =>
  typeof value === 'string' && timeForm.test(value) && new Date(value).toJSON() === value;
const chainId = idOf('pass|gate|acct');

/** Exactly these members, each as its check demands. */
function hasMembers(value: unknown, members: Members): value is Json {
  if (!isObject(value)) return false;
  let count = 0;
  for (const name in members) {
    if (!Object.hasOwn(value, name) || members[name]?.(value[name]) !== true) return false;
    count += 1;
  }
  return Object.keys(value).length === count;
}

const findingsMax = 32;
const finding: Check = (value) => hasMembers(value, { pointer: text, type: text });

const earlierManifest = { created_at: time, format: text, key_ids: listOf(kid), since: orNull(time) };
const manifest = { ...earlierManifest, generation: matching(/^gen_[0-9a-f]{32}$/) };
const chain = {
  chain_id: chainId,
  first_sequence: positive,
  last_hash: hash,
  last_sequence: positive,
  previous_attestation_hash: orNull(hash),
};
const archived: Check = (value) => hasMembers(value, { hash, through_sequence: positive });

/** In one `end`; `broken_unnamed` counts the others. */
const brokenNamedMax = 1_000;
const brokenChain: Check = (value) =>
  hasMembers(value, { chain_id: chainId, fault: matching(/^[a-z_]{1,64}$/), sequence: positive });
const someBroken: Check = (value) =>
  listOf(brokenChain, brokenNamedMax)(value) && (value as unknown[]).length > 0;

const earlierRecord = {
  amount_micro_usd: orNull(integer),
  chain_id: chainId,
  constraints_evaluated: listOf(text),
  decision: matching(/^(?:PERMIT|SUSPEND|BLOCK)$/),
  gate_id: orNull(idOf('gate')),
  hash,
  id: idOf('att'),
  passport_id: orNull(idOf('pass')),
  permission_key: orNull(text),
  pii: listOf(finding, findingsMax),
  previous_attestation_hash: orNull(hash),
  reason: orNull(text),
  request_hash: hash,
  resolution: orNull(text),
  sequence: positive,
  signature: matching(/^[\w-]{86}$/),
  signing_key_id: kid,
  source: (value: unknown) => value === 'control-plane' || idOf('side')(value),
  test: truth,
  timestamp: time,
};
const record = { ...earlierRecord, refers_to: orNull(idOf('att|appr')), source_account: idOf('acct') };
const shadow = { condition: orNull(text), decision: orNull(text), policy_hash: hash, reason: orNull(text) };
const record2 = {
  ...record,
  approval_id: orNull(idOf('s?appr')),
  asserted: truth,
  conditions: orNull(listOf(text)),
  domain: orNull(text),
  external: orNull((value) => hasMembers(value, { commitment: orNull(hash), decision: orNull(truth) })),
  facts: orNull(listOf((value) => hasMembers(value, { commitment: hash, path: text }))),
  hold_expires_at: orNull(time),
  permit_token: orNull(text),
  policy_hash: orNull(hash),
  proof: orNull(text),
  shadow: orNull((value) => hasMembers(value, shadow)),
  state_age_ms: orNull(integer),
  trust_level: orNull(text),
  units: orNull((value) => isObject(value) && Object.values(value).every(integer)),
  user: orNull(hash),
  wallet_id: orNull(idOf('wal')),
  wallet_path: orNull(listOf(matching(/^[\w-]{22}$/))),
};

export interface Manifest {
  readonly format: typeof format1 | typeof format2;
  readonly created_at: string;
  readonly key_ids: readonly string[];
  readonly since: string | null;
}
export interface Chain {
  /** The last of the records that are in an archive. */
  readonly archived?: { readonly hash: string; readonly through_sequence: number };
  readonly chain_id: string;
  readonly first_sequence: number;
  readonly last_hash: string;
  readonly last_sequence: number;
  readonly log_proof?: string;
  readonly previous_attestation_hash: string | null;
}
export interface BrokenChain {
  readonly chain_id: string;
  /** A word of docs/verify.md, 1, or one that is newer. */
  readonly fault: string;
  /** The first place that is not what it should be. */
  readonly sequence: number;
}
export interface End {
  readonly broken?: readonly BrokenChain[];
  /** How many more there are. */
  readonly broken_unnamed?: number;
  readonly chains: number;
  readonly records: number;
}
/** The members that verifiers read. */
export interface AttestationRecord {
  readonly chain_id: string;
  readonly hash: string;
  readonly sequence: number;
  readonly signature: string;
  readonly signing_key_id: string;
  readonly timestamp: string;
}

const format1 = 'agent-trust.attestations.v1';
export const format2 = 'agent-trust.attestations.v2';

/** Of a line with this one member; null: it has another one, or more. */
const onlyMember = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) && Object.keys(value).length === 1 ? value[name] : null;

/** Each reads the parsed JSON of its line; null: another line. */
export function manifestOf(line: unknown): Manifest | null {
  const value = onlyMember(line, 'manifest');
  // Those from before 2026-11-27 have no generation.
  if (!hasMembers(value, manifest) && !hasMembers(value, earlierManifest)) return null;
  return value['format'] === format1 || value['format'] === format2 ? (value as unknown as Manifest) : null;
}

export function chainOf(line: unknown): Chain | null {
  const value = onlyMember(line, 'chain');
  if (!isObject(value)) return null;
  const isArchived = Object.hasOwn(value, 'archived');
  const isLogged = Object.hasOwn(value, 'log_proof');
  const members = { ...chain, ...(isArchived && { archived }), ...(isLogged && { log_proof: text }) };
  if (!hasMembers(value, members)) return null;
  const found = value as unknown as Chain;
  const { first_sequence: first, last_sequence: last } = found;
  const through = found.archived?.through_sequence ?? 0;
  const isEmpty = isArchived && last === through;
  return first > through && (first <= last || isEmpty) ? found : null;
}

export function endOf(line: unknown): End | null {
  const value = onlyMember(line, 'end');
  if (!isObject(value)) return null;
  const isBroken = Object.hasOwn(value, 'broken');
  const isLong = Object.hasOwn(value, 'broken_unnamed');
  const members = {
    ...{ chains: integer, records: integer },
    ...(isBroken && { broken: someBroken }),
    ...(isLong && { broken_unnamed: positive }),
  };
  if (!hasMembers(value, members)) return null;
  const found = value as unknown as End;
  return isLong && found.broken?.length !== brokenNamedMax ? null : found;
}

/** A record in form 1 or 2, or one from before 2026-11-22. */
export const isRecord = (value: unknown): value is Json & AttestationRecord =>
  isObject(value) &&
  hasMembers(value, 'asserted' in value ? record2 : 'refers_to' in value ? record : earlierRecord);
