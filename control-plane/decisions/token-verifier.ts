import { type Keyset, keyset } from '../../shared/crypto/keyset.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { admitToken, openToken, type TokenVerdict } from '../../shared/verification/verify-token.ts';
import { seePassports } from '../federation/see-passports.ts';
import { issuersOf, verifyOfOthers } from '../federation/verify-of-others.ts';
import type { Caller } from '../http/caller.ts';
import type { DecisionDeps } from './deps.ts';

/** Verifies passport tokens of this service and of other issuers, for a caller at a gate or at none. */
export function passportReader(
  deps: DecisionDeps,
): (
  token: string,
  caller: Pick<Caller, 'accountId' | 'mode'>,
  gateId: GateId | null,
) => Promise<TokenVerdict> {
  const verifyOwn = tokenVerifier(deps);
  return async (token, { accountId, mode }, gateId) => {
    const own = verifyOwn(token);
    if (own.kind === 'verified' || own.reason !== 'passport_malformed') return own;
    const issuers = await issuersOf(deps, accountId, gateId);
    const verdict = verifyOfOthers(deps, token, { issuers, mode });
    // Its row is there before the decision, which reads it.
    if (verdict.kind === 'verified') await seePassports(deps, [verdict]);
    return verdict;
  };
}

/**
 * Verifies passport tokens with the service's own keys, on the calling thread. A decision costs a
 * transaction; beside that the 51 us of a signature need neither a pool nor a cache. Keys are imported again
 * only when the set changes.
 */
export function tokenVerifier({
  ed25519,
  signingKeys,
}: Pick<DecisionDeps, 'ed25519' | 'signingKeys'>): (token: string) => TokenVerdict {
  let imported: { readonly from: readonly VerificationKey[]; readonly keys: Keyset } | null = null;
  const currentKeys = (): Keyset => {
    const all = signingKeys.all();
    if (imported?.from !== all) imported = { from: all, keys: keyset(ed25519, all) };
    return imported.keys;
  };
  return (token) => {
    const opened = openToken(token, currentKeys());
    if (opened.kind === 'refused') return opened;
    const { open, key } = opened;
    return admitToken(opened, key.verify(open.signingInput, open.signature));
  };
}
