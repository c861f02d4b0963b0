import { must } from '../../errors/assert.ts';
import { checksJson } from '../evidence/checks-json.ts';
import type {
  ChainPart,
  OutcomePart,
  RecordRow,
  RequestPart,
  SharedParts,
  SpooledExtras,
  SpooledRecord,
} from './sync.ts';

/** The JSON text of a RecordRow. `chain` and `outcome` are its indices in the SharedParts before it. */
export const renderRecordRow = (head: string, chain: number, outcome: number): string =>
  `[${head},${chain},${outcome}]`;

/**
 * A RecordRow in form 1 without its last two members, the indices. Here and in the parts all texts but the
 * pointers and subjects consist of characters that JSON does not escape: ids, hashes, keys and words of
 * closed lists.
 */
export const renderRowHead = (
  id: string,
  requestHash: string,
  amountMicroUsd: number | null,
  timestampMs: number,
  took: readonly number[] | undefined,
): string =>
  `"${id}","${requestHash}",${amountMicroUsd},${timestampMs},${took === undefined ? 'null' : `[${took.join()}]`}`;

/** What makes such a head one of form 2. */
export const renderRowTail = (stateAgeMs: number | null, extras: SpooledExtras | null): string =>
  `,${stateAgeMs},${extras === null ? 'null' : renderExtras(extras)}`;

/** Half of the time of `JSON.stringify`; a domain in its canonical form needs no escapes either. */
function renderExtras(extras: SpooledExtras): string {
  const { domain, hold_expires_at_ms, proof, asserted, conditions, shadow, facts, fact_values } = extras;
  let text = '';
  if (domain !== undefined) text += `,"domain":"${domain}"`;
  if (hold_expires_at_ms !== undefined) text += `,"hold_expires_at_ms":${hold_expires_at_ms}`;
  if (proof !== undefined) text += `,"proof":"${proof}"`;
  if (asserted !== undefined) text += `,"asserted":${asserted}`;
  if (conditions != null) text += `,"conditions":[${conditions.map((id) => `"${id}"`).join()}]`;
  if (shadow != null) {
    const { condition, decision, policy_hash, reason } = shadow;
    text += `,"shadow":{"condition":${quotedOrNull(condition)},"decision":${quotedOrNull(decision)}`;
    text += `,"policy_hash":"${policy_hash}","reason":${quotedOrNull(reason)}}`;
  }
  if (facts !== undefined) text += `,"facts":${JSON.stringify(facts)}`;
  if (fact_values !== undefined) text += `${factsMark}${JSON.stringify(fact_values).slice(1)}`;
  return `{${text.slice(1)}}`;
}

/** Begins the values of a record's facts. In a text of JSON each of its quotes would be escaped. */
const factsMark = ',"fact_values":[';

export const renderChainPart = ({
  chain_id,
  passport_id,
  token_hash,
  federated,
  wallet_path,
}: ChainPart): string =>
  `{"chain_id":"${chain_id}","passport_id":${quotedOrNull(passport_id)},"token_hash":${quotedOrNull(token_hash)}` +
  `${federated === undefined ? '' : `,"federated":${JSON.stringify(federated)}`}` +
  `${wallet_path === undefined ? '' : `,"wallet_path":${JSON.stringify(wallet_path)}`}}`;

export const renderOutcomePart = (part: OutcomePart): string =>
  `{"gate_id":${quotedOrNull(part.gate_id)},"decision":"${part.decision}","reason":${quotedOrNull(part.reason)}` +
  `,"permission_key":${quotedOrNull(part.permission_key)}` +
  `,"constraints_evaluated":${checksJson(part.constraints_evaluated)}` +
  `,"pii":${part.pii.length === 0 ? '[]' : JSON.stringify(part.pii)}` +
  `,"caller_mode":"${part.caller_mode}"${renderPolicy(part)}}`;

/** Begins the members of form 2 in an OutcomePart. In a text of JSON each of its quotes would be escaped. */
export const form2Mark = ',"policy_hash":';

const renderPolicy = ({ policy_hash, trust_level = null }: OutcomePart): string =>
  policy_hash === undefined
    ? ''
    : `${form2Mark}${quotedOrNull(policy_hash)},"trust_level":${quotedOrNull(trust_level)}`;

const quotedOrNull = (text: string | null): string => (text === null ? 'null' : `"${text}"`);

const row2Members = 9;

/** The RequestPart of a row. Total: missing members are undefined. */
export function requestOf(row: RecordRow): RequestPart {
  const [id, request_hash, amount_micro_usd, timestamp_ms, took] = row;
  if (row.length === row2Members) {
    const [, , , , , state_age_ms, extras] = row;
    // No spread: it would give each record its own hidden class.
    return took === null
      ? { id, request_hash, amount_micro_usd, timestamp_ms, state_age_ms, extras }
      : { id, request_hash, amount_micro_usd, timestamp_ms, took, state_age_ms, extras };
  }
  return took === null
    ? { id, request_hash, amount_micro_usd, timestamp_ms }
    : { id, request_hash, amount_micro_usd, timestamp_ms, took };
}

/** The record that a row stands for. */
export function wholeRecord(row: RecordRow, { chains, outcomes }: SharedParts): SpooledRecord {
  const [chain, outcome] = row.slice(-2) as [number, number];
  return {
    ...requestOf(row),
    ...must(chains[chain], 'a row names a chain'),
    ...must(outcomes[outcome], 'a row names an outcome'),
  };
}

/** The same in form 1, for a control plane of the version before: without the members of form 2. */
export function inForm1(item: unknown): unknown {
  if (Array.isArray(item)) return item.length === row2Members ? item.toSpliced(5, 2) : item;
  if (typeof item !== 'object' || item === null) return item;
  if ('chains' in item && Array.isArray(item.chains) && 'outcomes' in item && Array.isArray(item.outcomes))
    return { chains: item.chains.map(inForm1), outcomes: item.outcomes.map(inForm1) };
  const { policy_hash: _1, trust_level: _2, ...rest } = item as SpooledRecord;
  const { wallet_path: _3, state_age_ms: _4, extras: _5, ...form1 } = rest;
  return form1;
}

export const isRecordRow = (item: object): item is RecordRow => Array.isArray(item);

/** When a record was decided, or a void written. */
export const timeOf = (item: RecordRow | Pick<SpooledRecord, 'timestamp_ms'>): number =>
  isRecordRow(item) ? item[3] : item.timestamp_ms;
