import { systemRandom } from '../../../shared/runtime/random.ts';
import {
  renderChainPart,
  renderOutcomePart,
  renderRecordRow,
  renderRowHead,
  renderRowTail,
  wholeRecord,
} from '../../../shared/wire/sync/spooled-record.ts';
import type { RecordRow, SharedParts, SpooledRecord } from '../../../shared/wire/sync/sync.ts';
import { type RecordParts, SharedPart } from '../../../sidecar/attest/spool-segment.ts';
import { sampleId } from './sample-chains.ts';

const random = systemRandom();

/** A record as a sidecar writes it to its spool. */
export function spooledRecord(change: Partial<SpooledRecord> = {}): SpooledRecord {
  const passportId = sampleId('pass', 1);
  return {
    id: random.newId('att', Date.UTC(2026, 10, 1) as never),
    request_hash: `sha256:${'0a'.repeat(32)}`,
    amount_micro_usd: 12_500_000,
    timestamp_ms: Date.UTC(2026, 10, 1),
    ...(change.took === undefined ? {} : { took: change.took }),
    ...(change.state_age_ms === undefined
      ? {}
      : { state_age_ms: change.state_age_ms, extras: change.extras ?? null }),
    chain_id: passportId,
    passport_id: passportId,
    token_hash: 'ab'.repeat(32),
    ...(change.wallet_path === undefined ? {} : { wallet_path: change.wallet_path }),
    gate_id: sampleId('gate', 1),
    decision: 'PERMIT',
    reason: null,
    permission_key: 'orders:create',
    constraints_evaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission'],
    pii: [],
    caller_mode: 'live',
    ...change,
  };
}

/** Takes records apart, as a sidecar does for one spool: what two of them share is the same part. */
export function sharedParts(): (record: SpooledRecord) => RecordParts {
  const known = new Map<string, SharedPart>();
  const partOf = (json: string) => {
    const part = known.get(json) ?? new SharedPart(json);
    known.set(json, part);
    return part;
  };
  return (record) => {
    const { id, request_hash, amount_micro_usd, timestamp_ms, took, state_age_ms, extras } = record;
    const head = renderRowHead(id, request_hash, amount_micro_usd, timestamp_ms, took);
    return {
      head: state_age_ms === undefined ? head : head + renderRowTail(state_age_ms, extras ?? null),
      chain: partOf(renderChainPart(record)),
      outcome: partOf(renderOutcomePart(record)),
    };
  };
}

/** A record in parts of its own. */
export const inParts = (record: SpooledRecord): RecordParts => sharedParts()(record);

/** What a sidecar ships of records of one passport and one outcome. */
export function shortened(records: readonly SpooledRecord[]): readonly (SharedParts | RecordRow)[] {
  const [first] = records;
  if (first === undefined) return [];
  const shared = JSON.parse(
    `{"chains":[${renderChainPart(first)}],"outcomes":[${renderOutcomePart(first)}]}`,
  );
  return [shared, ...records.map((record) => rowOf(record, 0))];
}

/** Its parts stand at this place of both lists. */
function rowOf(record: SpooledRecord, place: number): RecordRow {
  const {
    id,
    request_hash,
    amount_micro_usd,
    timestamp_ms,
    took = null,
    state_age_ms,
    extras = null,
  } = record;
  return state_age_ms === undefined
    ? [id, request_hash, amount_micro_usd, timestamp_ms, took, place, place]
    : [id, request_hash, amount_micro_usd, timestamp_ms, took, state_age_ms, extras, place, place];
}

/** A record that is spooled in parts. */
export function recordOfParts({ head, chain, outcome }: RecordParts): SpooledRecord {
  const partOf = ({ json }: SharedPart) => JSON.parse(json);
  const parts = { chains: [partOf(chain)], outcomes: [partOf(outcome)] };
  return wholeRecord(JSON.parse(renderRecordRow(head, 0, 0)), parts);
}
