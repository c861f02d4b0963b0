import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { attestationOf, type StoredRecord } from '../../../../control-plane/attestations/record-row.ts';
import { must } from '../../../../shared/errors/assert.ts';
import type { ChainId } from '../../../../shared/model/attestation.ts';
import type { UnixMillis } from '../../../../shared/model/time.ts';

setFlagsFromString('--allow-natives-syntax');
const haveSameClass: (one: object, other: object) => boolean = runInNewContext(
  '(one, other) => %HaveSameMap(one, other)',
);

const names = new Map([
  [1, 'A'.repeat(43)],
  [2, 'passport,trust_level'],
  [3, `side_${'0'.repeat(26)}`],
]);

const row = (sequence: number): StoredRecord => ({
  position: sequence,
  attestation_id: `00000000-0000-0000-0000-${String(sequence).padStart(12, '0')}`,
  chain: 1,
  sequence,
  previous_hash: Buffer.alloc(32, sequence),
  signature: Buffer.alloc(64),
  signing_key: 1,
  gate: null,
  decision: 'P',
  reason: null,
  request_hash: Buffer.alloc(32),
  permission_key: null,
  amount_micro_usd: null,
  checks: 2,
  pii: null,
  test: false,
  resolution: null,
  refers_to: null,
  source: 3,
  source_account: null,
  timestamp_ms: (1_767_225_600_000 + sequence) as UnixMillis,
  asserted: sequence % 2 === 0 ? null : false,
  trust_level: sequence % 2 === 0 ? null : '1',
  policy: null,
  state_age_ms: sequence % 2 === 0 ? null : sequence,
  domain: null,
  approval_id: null,
  wallet: null,
  hold_expires_ms: null,
  proof: null,
});

it('makes all records objects of one hidden class of V8', () => {
  const chainId = `pass_${'0'.repeat(26)}` as ChainId;
  // V8 settles classes only in code that has run a few times.
  const records = Array.from({ length: 200 }, (_, index) => attestationOf(row(index + 1), chainId, names));
  const [one, other] = records.slice(-2);
  expect(haveSameClass(must(one, 'there are many'), must(other, 'there are many'))).toBe(true);
});
