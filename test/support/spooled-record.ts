import { systemRandom } from '../../shared/runtime/random.ts';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import type { RecordParts } from '../../sidecar/attest/spool-segment.ts';
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
    chain_id: passportId,
    passport_id: passportId,
    token_hash: 'ab'.repeat(32),
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

/** A record that was spooled in parts. */
export const recordOfParts = ({ head, chain, outcome }: RecordParts): SpooledRecord =>
  JSON.parse(head + Buffer.from(chain).toString() + Buffer.from(outcome).toString());
