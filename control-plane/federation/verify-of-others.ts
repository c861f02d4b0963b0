import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import type { AccountId, GateId, IssuerId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { ForeignIssuer, type KnownIssuers, onlyFitting } from '../../shared/verification/foreign-issuers.ts';
import { admitOfOthers, openOfOthers } from '../../shared/verification/verify-foreign-token.ts';
import type { RefusedToken } from '../../shared/verification/verify-token.ts';
import { accountFederations, knownFederations, type StoredFederation } from '../issuers/federation-store.ts';
import { type KeyDeps, refreshKeys } from '../issuers/follow-keys.ts';

/** The passport of a token of another issuer, whose signature has just verified. */
export interface VerifiedOfOthers {
  readonly kind: 'verified';
  readonly passport: VerifiedPassport;
  readonly issuer: ForeignIssuer;
}

/** The issuers of others that a gate of this account knows, or it knows without a gate, as they are now. */
export async function issuersOf(
  deps: Pick<KeyDeps, 'sql' | 'logger'>,
  accountId: AccountId,
  gateId: GateId | null,
): Promise<KnownIssuers> {
  const stored = await (gateId === null
    ? accountFederations(deps.sql, accountId)
    : knownFederations(deps.sql, accountId, gateId));
  return knownAmong(stored);
}

/** The active ones of these. */
export function knownAmong(stored: readonly StoredFederation[]): KnownIssuers {
  const issuers = stored.filter(({ status }) => status === 'active').map((each) => new ForeignIssuer(each));
  return { name: '', size: stored.length, pick: (payload, mode) => onlyFitting(issuers, payload, mode) };
}

/**
 * Verifies a token of another issuer, on the calling thread: a decision costs a transaction beside it. An
 * unknown key, or another one of a known name, triggers a reload of the issuer's keys, after this check.
 */
export function verifyOfOthers(
  deps: KeyDeps,
  token: string,
  { issuers, mode }: { readonly issuers: KnownIssuers; readonly mode: Mode },
): VerifiedOfOthers | RefusedToken {
  const opened = openOfOthers(token, issuers, mode, ({ issuerId }) => readKeysSoon(deps, issuerId));
  if (opened.kind === 'refused') return opened;
  const { open, key, issuer } = opened;
  const isSigned = key.verify(Buffer.from(open.signedText, 'latin1'), open.signature);
  if (!isSigned) readKeysSoon(deps, issuer.issuerId);
  const admitted = admitOfOthers(opened, isSigned);
  return admitted.kind === 'refused' ? admitted : { ...admitted, issuer };
}

/** Never rejects. */
export function readKeysSoon(deps: KeyDeps, issuerId: IssuerId): void {
  refreshKeys(deps, issuerId).catch((error: unknown) => {
    deps.logger.warn({ err: error, issuer_id: issuerId }, 'keys of an issuer could not be read again');
  });
}
