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
 * gives up where it is refused, so nothing is refused by keys that may be out of date: they are read first,
 * if their turn allows it. Throws `service_unavailable` with the time to send it again.
 */
export async function judgeSignature(
  deps: KeyDeps,
  issuer: ForeignIssuer,
  open: OpenForeignToken,
): Promise<Exclude<Judgement, 'keys_stale'>> {
  const askedAtMs = deps.clock.now();
  const known = judgedBy(issuer, open, askedAtMs);
  if (known === 'signed' || known === 'forged') return known;
  // Pasted keys are all that there are.
  if (issuer.keysAtMs === null) return 'unknown_key';
  await refreshKeys(deps, issuer.issuerId);
  const stored = await findFederation(deps.sql, issuer.issuerId);
  if (stored === null) throw new ApiError('issuer_not_found');
  const nowMs = deps.clock.now();
  const read = judgedBy(new ForeignIssuer(stored), open, nowMs);
  const isNew = (stored.keysAtMs ?? 0) >= askedAtMs;
  if (read === 'signed' || read === 'forged' || (read === 'unknown_key' && isNew)) return read;
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
