import fc from 'fast-check';
import { limits } from '../../../shared/model/limits.ts';
import { stateAgeMsMax } from '../../../shared/wire/evidence/attestation.ts';
import type { SpooledRecord } from '../../../shared/wire/sync/sync.ts';
import { grapheme } from '../base/arbitrary-text.ts';
import { sampleId } from './sample-chains.ts';
import { spooledRecord } from './spooled-record.ts';

/** Of a token that did not verify, at a gate. */
export const refusedToken: Partial<SpooledRecord> = {
  passport_id: null,
  token_hash: null,
  chain_id: sampleId('gate', 1),
  decision: 'BLOCK',
  reason: 'passport_malformed',
};

/** The members of form 2. */
const form2 = fc.record({
  policy_hash: fc.constantFrom(null, `sha256:${'5'.repeat(64)}`),
  trust_level: fc.constantFrom(null, 'L1', 'L3'),
  wallet_path: fc.constantFrom(null, [], ['-_'.repeat(11)]),
  state_age_ms: fc.option(fc.nat({ max: stateAgeMsMax })),
  extras: fc.option(
    fc.record(
      {
        domain: fc.constantFrom('api.example.com', '[::1]'),
        hold_expires_at_ms: fc.nat(),
        proof: fc.constantFrom('dpop', 'httpsig'),
        asserted: fc.constant(true as const),
        conditions: fc.constantFrom([], ['a'], ['below-workspace', 'b-2']),
      },
      { requiredKeys: [] },
    ),
  ),
});

/** Any record that a sidecar may write. */
export const anySpooledRecord = fc
  .record({
    amount_micro_usd: fc.option(fc.nat()),
    permission_key: fc.constantFrom(null, 'orders:create', 'a.b-c_d:x'),
    constraints_evaluated: fc.subarray([
      'passport',
      'trust_level',
      'freshness',
      'issuer',
      'permission',
      'approval',
    ]),
    pii: fc.array(
      fc.record({
        pointer: fc.string({ unit: grapheme, maxLength: 40 }).map((text) => `/${text.replaceAll('\0', '')}`),
        type: fc.constantFrom('email', 'iban', 'unscanned'),
      }),
      { maxLength: 4 },
    ),
    timestamp_ms: fc.nat(),
    caller_mode: fc.constantFrom('live', 'test'),
  })
  .chain((change) => fc.tuple(fc.constant(change), fc.oneof(fc.constant({}), form2)))
  .map(([change, form]) => ({ ...change, ...form }))
  .chain((change) =>
    fc.oneof(
      fc.constantFrom(
        spooledRecord(change),
        spooledRecord({ ...refusedToken, ...change, ...('wallet_path' in change && { wallet_path: null }) }),
      ),
      fc
        .uniqueArray(fc.integer({ min: 1 }), { maxLength: limits.leasesPerRecordMax })
        .map((took) => spooledRecord({ ...change, took })),
    ),
  );
