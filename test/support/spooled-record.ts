import { systemRandom } from '../../shared/runtime/random.ts';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import { sampleId } from './sample-chains.ts';

const random = systemRandom();

/** A record as a sidecar writes it to its spool. */
export function spooledRecord(change: Partial<SpooledRecord> = {}): SpooledRecord {
  const passportId = sampleId('pass', 1);
  return {
    id: random.newId('att', Date.UTC(2026, 10, 1) as never),
    chain_id: passportId,
    passport_id: passportId,
    gate_id: sampleId('gate', 1),
    decision: 'PERMIT',
    reason: null,
    request_hash: `sha256:${'0a'.repeat(32)}`,
    permission_key: 'orders:create',
    amount_micro_usd: 12_500_000,
    constraints_evaluated: ['passport', 'trust_level', 'freshness', 'issuer', 'permission'],
    pii: [],
    timestamp_ms: Date.UTC(2026, 10, 1),
    token_hash: 'ab'.repeat(32),
    caller_mode: 'live',
    ...change,
  };
}
