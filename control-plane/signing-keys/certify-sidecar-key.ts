import { certify, keyClaim } from '../../shared/attestation/decision-receipt.ts';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import type { SidecarCertificate, SidecarKeyCall } from '../../shared/wire/evidence/decision-receipt.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { signingKeysLimits } from './limits.ts';

/**
 * Certifies the key with which a sidecar signs receipts (contract §9). Throws `invalid_request` unless the
 * sidecar has shown that the key is its own.
 */
export function certifySidecarKey(
  { ed25519, signingKeys, clock }: Pick<SigningDeps, 'ed25519' | 'signingKeys' | 'clock'>,
  { accountId, sidecarId }: { readonly accountId: AccountId; readonly sidecarId: SidecarId },
  { x, signature }: Pick<SidecarKeyCall, 'x' | 'signature'>,
): SidecarCertificate {
  const publicKey = decodeBase64url(x);
  const signed = decodeBase64url(signature);
  const isOwn = (): boolean => {
    try {
      const claim = keyClaim(sidecarId, x);
      return publicKey !== null && signed !== null && ed25519.verifier(publicKey)(claim, signed);
    } catch {
      // No point of the curve, or one of small order.
      return false;
    }
  };
  if (publicKey === null || !isOwn())
    throw invalidRequest('signature', 'signature must be made by the key x over its claim.');
  const nowMs = clock.now();
  return certify(
    {
      account_id: accountId,
      expires_at: renderTime((nowMs + signingKeysLimits.certificateMs) as UnixMillis),
      kid: thumbprint(publicKey),
      not_before: renderTime((nowMs - signingKeysLimits.certificateLeewayMs) as UnixMillis),
      sidecar_id: sidecarId,
      x,
    },
    signingKeys.current('attestation'),
  );
}
