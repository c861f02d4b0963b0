/**
 * Room `control-plane/passports`: passports: issued, suspended, revoked. One file per use case, SQL in
 * `passport-store.ts`.
 */

import { renderPrivateKey, renderPublicKey } from '../../shared/crypto/agent-key.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import type { Issuer } from '../../shared/model/issuer.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { reachesTier } from '../../shared/model/trust-tier.ts';
import type { WantedPassport } from '../../shared/wire/api/passport-issue.ts';
import type { Transaction } from '../base/database.ts';
import { ensureDefaultIssuer } from '../issuers/default-issuer.ts';
import { refuseUnknownWallet } from '../issuers/hold-wallet.ts';
import { findIssuer } from '../issuers/issuer-store.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { insertPassport, lockPassport } from './passport-store.ts';
import { signPassport } from './sign-passport.ts';
import { lockOwners } from './suspension-store.ts';
import { standWithOwners } from './unnamed-end-store.ts';

/** A new passport, while its secrets are known. */
export interface IssuedPassport {
  readonly passport: Passport;
  /** The token, a bearer credential. Only its SHA-256 is stored. */
  readonly jwt: string;
  /** The agent's own key; null if the agent brought it. Never stored. */
  readonly privateKey: string | null;
}

/**
 * Issues a passport (contract §3) in the caller's transaction. Published to sidecars only if its owner is
 * suspended: one with a valid signature is active unless the feed says otherwise. Throws `issuer_not_found`,
 * `agent_id_conflict`, and `invalid_request` for values beyond the issuer's tier or the token's size.
 */
export async function issuePassport(
  tx: Transaction,
  change: WriteChange,
  deps: SigningDeps,
  { owner, wanted }: { readonly owner: Owner; readonly wanted: WantedPassport },
): Promise<IssuedPassport> {
  await lockOwners(tx, [{ ...owner, owner: wanted.owner }], 'shared');
  const issuer = await issuerFor(tx, deps, owner, wanted);
  const walletId = wanted.walletId === 'default' ? issuer.walletId : wanted.walletId;
  await refuseUnknownWallet(tx, owner, walletId);
  const agentKey = wanted.publicKey === null ? makeAgentKey(deps) : null;
  const publicKey = agentKey?.publicKey ?? wanted.publicKey;
  assert(publicKey !== null, 'a passport has an agent key, brought or made');
  const passport = composePassport(deps, {
    wanted,
    issuer,
    publicKey,
    walletId: walletId === 'unknown' ? null : walletId,
  });
  const key = deps.signingKeys.current('passport');
  const jwt = signPassport(passport, key);
  if (!(await insertPassport(tx, passport, { hash: sha256Hex(jwt), signingKeyId: key.kid }))) {
    throw new ApiError('agent_id_conflict', { param: 'agent_id' });
  }
  const { passportId, issuedAtMs: nowMs } = passport;
  const suspended = await standWithOwners(tx, change, [passport], nowMs);
  const stored = suspended.length === 0 ? passport : await lockPassport(tx, owner, { passportId, nowMs });
  return { passport: stored ?? passport, jwt, privateKey: agentKey?.privateKey ?? null };
}

function makeAgentKey({ random, ed25519 }: SigningDeps): {
  readonly publicKey: string;
  readonly privateKey: string;
} {
  const seed = random.bytes(32);
  return {
    publicKey: renderPublicKey(ed25519.signer(seed).publicKey),
    privateKey: renderPrivateKey(seed),
  };
}

async function issuerFor(
  tx: Transaction,
  deps: SigningDeps,
  owner: Owner,
  { issuerId, trustTier }: WantedPassport,
): Promise<Issuer> {
  const issuer =
    issuerId === null ? await ensureDefaultIssuer(tx, deps, owner) : await findIssuer(tx, owner, issuerId);
  if (issuer === null) throw new ApiError('issuer_not_found', { param: 'issuer_id' });
  if (issuer.federation !== null) {
    throw invalidRequest('issuer_id', 'The tokens of this issuer are passports already: it issues its own.');
  }
  if (issuer.status === 'suspended') {
    throw invalidRequest('issuer_id', 'This issuer is suspended: its passports would be blocked everywhere.');
  }
  if (!reachesTier(issuer.trustTier, trustTier)) {
    throw invalidRequest(
      'trust_tier',
      `trust_tier must be at most ${issuer.trustTier}, the tier of the issuer.`,
    );
  }
  return issuer;
}

function composePassport(
  { random }: SigningDeps,
  {
    wanted,
    issuer,
    publicKey,
    walletId,
  }: {
    readonly wanted: WantedPassport;
    readonly issuer: Issuer;
    readonly publicKey: string;
    readonly walletId: WalletId | null;
  },
): Passport {
  const passportId = random.newId('pass', wanted.issuedAtMs);
  // An unnamed agent is named after its passport, so that the two are easily matched.
  const agentId = wanted.agentId ?? passportId.replace('pass_', 'agent_');
  return {
    passportId,
    accountId: issuer.accountId,
    mode: issuer.mode,
    issuerId: issuer.issuerId,
    issuerDomain: issuer.domain,
    agentId,
    agentName: wanted.agentName ?? agentId,
    subject: { ...wanted.subject, agent_id: agentId },
    permissions: wanted.permissions,
    constraints: wanted.constraints,
    trustTier: wanted.trustTier,
    walletId,
    publicKey,
    owner: wanted.owner,
    user: wanted.user,
    isFederated: false,
    status: 'active',
    suspendedBy: [],
    issuedAtMs: wanted.issuedAtMs,
    expiresAtMs: wanted.expiresAtMs,
    revokedAtMs: null,
    revocationReason: null,
    revokedBy: null,
    metadata: wanted.metadata,
    useCount: 0,
    lastUsedAtMs: null,
  };
}
