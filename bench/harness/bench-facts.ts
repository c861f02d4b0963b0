import { randomBytes } from 'node:crypto';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import { signPassportToken } from '../../shared/crypto/passport-token.ts';
import { type CompiledGate, compileGate } from '../../shared/decision/compile-gate.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import { emptyExtras, type RecordExtras } from '../../shared/model/attestation.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { UnixMillis, UnixSeconds } from '../../shared/model/time.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { admitToken, openToken } from '../../shared/verification/verify-token.ts';
import { noConstraints } from '../../shared/wire/api/constraints.ts';
import { renderPassportClaims } from '../../shared/wire/api/passport-claims.ts';

const random = systemRandom();

/** The rule of row `warm`: a permission, a domain, a limit per transaction. */
export const permission = 'orders:create' as PermissionKey;
export const domain = 'api.example.com';
export const perTransactionUsd = 500;
export const amountUsd = 12.5;

/** At which all that follows was made: a row decides at a moment of its own, which may be an hour later. */
const madeAtMs = Date.now() as UnixMillis;

const nowS = Math.floor(madeAtMs / 1_000) as UnixSeconds;
const accountId = random.newId('acct', madeAtMs);

/** Of a record as most sidecars write it; which policy it names, the stage knows: no other one verifies. */
export const benchExtras: Omit<RecordExtras, 'policyHash'> = {
  ...emptyExtras,
  trustLevel: 'L1',
  domain: 'api.example.com',
  stateAgeMs: 400,
};

export const gate: CompiledGate = compileGate({
  gateId: random.newId('gate', madeAtMs),
  accountId,
  ...{ mode: 'live', version: 1, policyVersion: 1, policyHash: null, trustLevel: 'L1' },
  constraints: {
    ...noConstraints,
    allowedDomains: [domain],
    spendLimits: {
      perTransactionMicroUsd: (perTransactionUsd * 1e6) as MicroUsd,
      ...{ dailyMicroUsd: null, monthlyMicroUsd: null, per: 'gate', alertAt: 0.8, unpriced: 'block' },
    },
  },
});

const engine = chooseEd25519();
const signer = engine.signer(randomBytes(32));
const kid = 'bench-key';

/** With the one key that signed `token`. */
const keys = keyset(engine, [
  {
    ...{ kid, purpose: 'passport', retiredAtMs: null, compromised: false, notBeforeMs: madeAtMs },
    publicKey: Buffer.from(signer.publicKey).toString('base64url'),
  },
]);

/** A passport of about 600 characters that the gate permits. */
export const token: string = signPassportToken(
  renderPassportClaims({
    passportId: random.newId('pass', madeAtMs),
    issuerId: random.newId('iss', madeAtMs),
    ...{
      issuerDomain: null,
      accountId,
      owner: null,
      user: null,
      mode: 'live',
      agentId: 'bench-agent',
      agentName: 'bench-agent',
    },
    ...{ permissions: [permission], trustTier: 'L1', constraints: noConstraints },
    hasWallet: false,
    ...{ issuedAtS: nowS, notBeforeS: nowS, expiresAtS: (nowS + 86_400) as UnixSeconds },
    publicKey: `ed25519:${Buffer.from(signer.publicKey).toString('base64url')}`,
  }),
  { kid, signer },
);

/** The whole verification of a token never seen; null: it is invalid. */
export function verifyUnknown(text: string): VerifiedPassport | null {
  const opened = openToken(text, keys);
  if (opened.kind === 'refused') return null;
  const verdict = admitToken(opened, opened.key.verify(opened.open.signingInput, opened.open.signature));
  return verdict.kind === 'verified' ? verdict.passport : null;
}

export const active: PassportStanding = {
  status: 'active',
  ...{
    isIssuerSuspended: false,
    isAccountSuspended: false,
    isKeyCompromised: false,
    isInWallet: false,
    stateAgeMs: 0,
  },
};
