import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import type { SidecarKeyRevoked } from '../../shared/wire/evidence/decision-receipt.ts';
import { administer, type Changed } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { signingKeysLimits } from './limits.ts';
import { findRevokedKey, insertRevokedKey, type RevokedKey } from './sidecar-key-store.ts';

/**
 * The key of a sidecar may have leaked: what it signed proves nothing from now on, and it is certified no
 * more; its sidecar makes another one. For good, and on record in the audit, whose head is in the log: who
 * revokes a key to be rid of its receipts shows it. A repeat changes nothing.
 */
export const revokeSidecarKey = (
  deps: Pick<SigningDeps, 'sql' | 'clock' | 'random' | 'bus' | 'signingKeys'>,
  caller: Caller,
  kid: string,
): Promise<SidecarKeyRevoked> =>
  administer(deps, caller, async (tx): Promise<Changed<SidecarKeyRevoked>> => {
    const known = await findRevokedKey(tx, kid);
    if (known !== null) return { result: renderRevokedKey(known), audited: null };
    const revoked = await insertRevokedKey(tx, { kid, max: signingKeysLimits.revokedKeysMax });
    if (revoked === null)
      throw new ApiError('overloaded', {
        message: `${signingKeysLimits.revokedKeysMax} keys of sidecars are revoked, which is the maximum. Replace the attestation key: POST /v1/signing-keys/rotate.`,
      });
    const result = renderRevokedKey(revoked);
    return { result, audited: { operation: 'revokeSidecarKey', target: kid, before: null, after: result } };
  });

export const renderRevokedKey = ({ kid, revokedAtMs }: RevokedKey): SidecarKeyRevoked => ({
  kid,
  revoked_at: renderTime(revokedAtMs),
});
