import { must } from '../errors/assert.ts';
import { checksJson } from './checks-json.ts';
import type { ChainPart, OutcomePart, RequestPart, SharedParts, ShortRecord, SpooledRecord } from './sync.ts';

/**
 * The JSON text of a record, the same that JSON.stringify gives of the members in this order, in a third of
 * its time: the members are known, and all texts but the pointers consist of characters that JSON does not
 * escape (ids, hashes, keys and words of closed lists).
 */
export const renderSpooledRecord = (record: SpooledRecord): string =>
  `{${membersOfRequest(record.id, record.request_hash, record.amount_micro_usd, record.timestamp_ms, record.took)}` +
  `,${membersOfChain(record)},${membersOfOutcome(record)}}`;

/** The JSON text of a ShortRecord. Its parts stand at these places of the SharedParts before it. */
export const renderShortRecord = (requestMembers: string, chain: number, outcome: number): string =>
  `{${requestMembers},"chain":${chain},"outcome":${outcome}}`;

export const renderChainPart = (part: ChainPart): string => `{${membersOfChain(part)}}`;

export const renderOutcomePart = (part: OutcomePart): string => `{${membersOfOutcome(part)}}`;

/** What differs with each request. */
export const membersOfRequest = (
  id: string,
  requestHash: string,
  amountMicroUsd: number | null,
  timestampMs: number,
  took: readonly number[] | undefined,
): string =>
  `"id":"${id}","request_hash":"${requestHash}","amount_micro_usd":${amountMicroUsd}` +
  `,"timestamp_ms":${timestampMs}${took === undefined ? '' : `,"took":[${took.join()}]`}`;

const membersOfChain = ({ chain_id, passport_id, token_hash }: ChainPart): string =>
  `"chain_id":"${chain_id}","passport_id":${plain(passport_id)},"token_hash":${plain(token_hash)}`;

const membersOfOutcome = (part: OutcomePart): string =>
  `"gate_id":${plain(part.gate_id)},"decision":"${part.decision}","reason":${plain(part.reason)}` +
  `,"permission_key":${plain(part.permission_key)}` +
  `,"constraints_evaluated":${checksJson(part.constraints_evaluated)}` +
  `,"pii":${part.pii.length === 0 ? '[]' : JSON.stringify(part.pii)}` +
  `,"caller_mode":"${part.caller_mode}"`;

const plain = (text: string | null): string => (text === null ? 'null' : `"${text}"`);

/** The record that a short one stands for. */
export function wholeRecord(short: ShortRecord, { chains, outcomes }: SharedParts): SpooledRecord {
  const { chain, outcome, ...request } = short;
  return {
    ...(request satisfies RequestPart),
    ...must(chains[chain], 'a short record names a chain'),
    ...must(outcomes[outcome], 'a short record names an outcome'),
  };
}
