import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emptyChain } from '../../shared/attestation/chain.ts';
import { recordLine } from '../../shared/attestation/export.ts';
import { recordHash, signedBody } from '../../shared/attestation/record.ts';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import {
  type AttestationRecord,
  noCarried,
  noExtras,
  type RecordExtras,
  recordProofs,
} from '../../shared/model/attestation.ts';
import { checkNames, decisionReasons, outcomes } from '../../shared/model/decision.ts';
import type { IdPrefix } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import { latestUnixMs, type UnixMillis } from '../../shared/model/time.ts';
import { trustTiers } from '../../shared/model/trust-tier.ts';
import {
  parseAttestation,
  renderAttestation,
  stateAgeMsMax,
} from '../../shared/wire/evidence/attestation.ts';
import { carriedNames } from '../../shared/wire/evidence/carried-members.ts';
import { codePoint } from '../support/base/arbitrary-text.ts';
import {
  chainOf,
  keysetOf,
  sampleCarried,
  sampleExtras,
  sampleId,
  sampleKey,
} from '../support/data/sample-chains.ts';
import { recordFaultOf } from '../support/data/verify-export.ts';

const key = sampleKey(1);
const keys = keysetOf(key);
const id = <P extends IdPrefix>(prefix: P) => fc.nat(255).map((number) => sampleId(prefix, number));
const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null });
/** Any text but lone surrogates. */
const text = fc.string({ unit: codePoint, maxLength: 40 });

const origin: fc.Arbitrary<Pick<AttestationRecord, 'resolution' | 'refersTo' | 'sourceAccount'>> = fc.oneof(
  fc.record({ resolution: fc.constant(null), refersTo: fc.constant(null), sourceAccount: id('acct') }),
  fc.record({
    resolution: fc.constantFrom('approved', 'denied', 'expired', 'voided'),
    refersTo: fc.oneof(id('att'), id('appr')),
    sourceAccount: id('acct'),
  }),
);
/** What a build wrote that knew neither `refers_to` nor `source_account`. */
const earlierOrigin: typeof origin = fc.record({
  resolution: orNull(fc.constantFrom('approved', 'denied', 'expired')),
  refersTo: fc.constant(null),
  sourceAccount: fc.constant(null),
});

const orTime = orNull(fc.integer({ min: 0, max: latestUnixMs }).map((ms) => ms as UnixMillis));
/** At least one of them. */
const carried = fc.subarray([...carriedNames], { minLength: 1 }).map((names) => ({
  ...noCarried,
  ...Object.fromEntries(names.map((name) => [name, sampleCarried[name]])),
}));
const extras: fc.Arbitrary<RecordExtras> = fc.record({
  policyHash: orNull(fc.constant(contentHash('policy'))),
  trustLevel: orNull(fc.constantFrom(...trustTiers)),
  domain: orNull(fc.constantFrom('api.example.com', '[::1]', '127.0.0.1', 'a_b.xn--bcher-kva.example')),
  stateAgeMs: orNull(fc.nat({ max: stateAgeMsMax })),
  approvalId: orNull(
    fc.oneof(
      id('appr'),
      id('appr').map((text) => `s${text}`),
    ),
  ),
  walletId: orNull(id('appr').map((text) => text.replace('appr', 'wal'))),
  holdExpiresAtMs: orTime,
  proof: orNull(fc.constantFrom(...recordProofs)),
  asserted: fc.boolean(),
  walletPath: orNull(fc.constantFrom([], sampleExtras.walletPath ?? [])),
  carried: orNull(carried),
});

const rest: fc.Arbitrary<
  Omit<AttestationRecord, 'resolution' | 'refersTo' | 'sourceAccount' | keyof RecordExtras>
> = fc.record({
  id: id('att'),
  chainId: fc.oneof(id('pass'), id('gate'), id('acct')),
  passportId: orNull(id('pass')),
  gateId: orNull(id('gate')),
  decision: fc.constantFrom(...outcomes),
  reason: orNull(fc.constantFrom(...decisionReasons)),
  requestHash: fc.jsonValue().map(contentHash),
  permissionKey: orNull(fc.constantFrom('orders:create' as PermissionKey, 'a.b-c_d:*' as PermissionKey)),
  amountMicroUsd: orNull(fc.maxSafeNat().map((amount) => amount as MicroUsd)),
  constraintsEvaluated: fc.subarray([...checkNames]),
  pii: fc.array(fc.record({ pointer: text, type: text }), { maxLength: 5 }),
  test: fc.boolean(),
  source: fc.oneof(id('side'), fc.constant('control-plane' as const)),
  timestampMs: fc.integer({ min: 0, max: latestUnixMs }).map((ms) => ms as UnixMillis),
});
const recordWith = (from: typeof origin, more: fc.Arbitrary<RecordExtras>): fc.Arbitrary<AttestationRecord> =>
  fc.tuple(rest, from, more).map(([one, other, third]) => ({ ...one, ...other, ...third }));
const form1 = fc.constant(noExtras);
const record = recordWith(origin, fc.oneof(form1, extras));
const anyForm = fc.oneof(record, recordWith(earlierOrigin, form1));

describe('attestations, for any record', () => {
  it('are hashed over their RFC 8785 form, without sorting anything', () => {
    fc.assert(
      fc.property(
        anyForm,
        orNull(fc.constant(contentHash(1))),
        fc.maxSafeNat(),
        (any, previous, sequence) => {
          const placed = { ...any, sequence, previousAttestationHash: previous, signingKeyId: key.kid };
          expect(JSON.stringify(signedBody(placed))).toBe(canonicalJson(signedBody(placed)));
          expect(recordHash(placed)).toBe(contentHash(signedBody(placed)));
        },
      ),
    );
  });

  it('are exported in their RFC 8785 form, and read back as they were', () => {
    fc.assert(
      fc.property(record, (any) => {
        for (const attestation of chainOf([any], key)) {
          const line = recordLine(attestation);
          expect(line).toBe(`${canonicalJson(JSON.parse(line))}\n`);
          expect(parseAttestation(JSON.parse(line))).toEqual(attestation);
        }
      }),
    );
  });

  it('verify in their chain', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(record, { maxLength: 6 }), async (records) => {
        let head = emptyChain;
        for (const attestation of chainOf(records, key)) {
          expect(await recordFaultOf(renderAttestation(attestation), head, keys)).toBeNull();
          head = attestation;
        }
      }),
      { numRuns: 30 },
    );
  });
});
