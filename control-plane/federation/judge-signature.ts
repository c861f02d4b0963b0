import type { OpenForeignToken } from '../../shared/crypto/foreign-token.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { areKeysStale } from '../../shared/model/federation.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { ForeignIssuer } from '../../shared/verification/foreign-issuers.ts';
import { findFederation } from '../issuers/federation-store.ts';
import { type KeyDeps, keysWaitMs, refreshKeys } from '../issuers/follow-keys.ts';

type Judgement = 'signed' | 'forged' | 'unknown_key' | 'keys_stale';

/**
 * Whether a key of this issuer signed what is handed in once, a security event or an assertion. Its sender
 * gives up where it is refused, so nothing is refused but by keys that were read for it: others may have been
 * read before the issuer changed them, whatever the times of two replicas say. Throws `service_unavailable`
 * with the time to send it again.
 */
export async function judgeSignature(
  deps: KeyDeps,
  issuer: ForeignIssuer,
  open: OpenForeignToken,
): Promise<Exclude<Judgement, 'keys_stale'>> {
  const known = judgedBy(issuer, open, deps.clock.now());
  if (known === 'signed') return known;
  // Pasted keys are all that there are, and are never stale.
  if (issuer.keysAtMs === null && known !== 'keys_stale') return known;
  const reading = await refreshKeys(deps, issuer.issuerId);
  const stored = await findFederation(deps.sql, issuer.issuerId);
  if (stored === null) throw new ApiError('issuer_not_found');
  const nowMs = deps.clock.now();
  const judged = judgedBy(new ForeignIssuer(stored), open, nowMs);
  if (judged === 'signed' || (judged !== 'keys_stale' && reading === 'read')) return judged;
  throw new ApiError('service_unavailable', {
    message: 'The keys of the issuer cannot be read just now. Send it again.',
    retryAfterS: Math.ceil(keysWaitMs(stored, nowMs) / secondMs),
  });
}

/** Without a `kid`, what the only key does not verify may be of the next one. */
function judgedBy(issuer: ForeignIssuer, open: OpenForeignToken, nowMs: UnixMillis): Judgement {
  if (areKeysStale(issuer, nowMs)) return 'keys_stale';
  const key = issuer.find(open.kid, open.algorithm);
  if (key === null) return 'unknown_key';
  if (key.verify(Buffer.from(open.signedText, 'latin1'), open.signature)) return 'signed';
  return open.kid === null ? 'unknown_key' : 'forged';
}
