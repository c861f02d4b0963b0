import type { DecisionReason } from '../model/decision.ts';
import { keyFetchMsMin } from '../model/federation.ts';
import { limits } from '../model/limits.ts';

/** Details of a reason in an answer (contract §5). */
export interface ReasonRow {
  /** One sentence for a person, without data of the request. */
  readonly detail: string;
  /** Whether the same request may succeed later with the request, the passport and the gate unchanged. */
  readonly retryable: boolean;
  /** When to retry, if known beforehand. */
  readonly afterMs: number | null;
}

const final = (detail: string): ReasonRow => ({ detail, retryable: false, afterMs: null });
const passing = (detail: string, afterMs: number | null): ReasonRow => ({ detail, retryable: true, afterMs });

/**
 * Every reason. Whether and when a limit's reason is retryable depends on its window; the renderer decides
 * that.
 */
export const reasons: Readonly<Record<DecisionReason, ReasonRow>> = {
  passport_malformed: final('The passport is not a well-formed passport token.'),
  passport_signature_invalid: final('The signature of the passport does not verify.'),
  passport_not_yet_valid: passing('The passport is not valid yet.', null),
  passport_expired: final('The passport has expired.'),
  passport_revoked: final('The passport was revoked.'),
  passport_suspended: final('The passport, or the account that issued it, is suspended.'),
  passport_unknown_key: final('The passport is signed with a key that this service does not accept.'),
  mode_mismatch: final('A live passport is not accepted in test mode, nor a test passport in live mode.'),
  trust_level_insufficient: final('The trust tier of the passport is below the trust level of the gate.'),
  issuer_untrusted: final('The gate does not trust the issuer of the passport, or the issuer is suspended.'),
  issuer_keys_stale: passing(
    'The keys of the issuer of the passport could not be read for too long.',
    keyFetchMsMin,
  ),
  proof_missing: final(
    'The gate or the passport requires proof that the agent holds the key of its passport, and none was given.',
  ),
  proof_invalid: final(
    'The proof that the agent holds the key of its passport does not verify, or is for another request or time.',
  ),
  proof_replayed: final('The proof was used before. The agent must make a new one for each request.'),
  permission_missing: final('The request has no permission_key.'),
  permission_not_granted: final('The passport does not grant the permission.'),
  permission_not_in_catalog: final('The permission is not in the catalog of the gate.'),
  condition_not_met: final('A condition of the gate or the passport is not met.'),
  condition_error: final('A condition of the gate or the passport could not be evaluated for this request.'),
  domain_not_allowed: final('The domain is not allowed.'),
  domain_missing: final('Only certain domains are allowed, and the request has none.'),
  pii_detected: final('The request contains personal data, or more text than is scanned for it.'),
  currency_unsupported: final('Only amounts in USD are supported.'),
  amount_missing: final('A spend limit or approval threshold applies, and the request has no amount.'),
  spend_limit_exceeded: final('The amount exceeds a spend limit.'),
  rate_limit_exceeded: passing('The rate limit is used up.', null),
  quota_unavailable: passing(
    'The limits, or the approval, cannot be looked up right now.',
    limits.quotaRetryMs,
  ),
  state_stale: passing(
    'The known state of the passport is too old for the trust level of the gate.',
    limits.heartbeatIntervalMs,
  ),
  approval_required: final('The request requires an approval, which only a gate can request.'),
  approval_denied: final('A person denied the request. Their note is in the approval.'),
  approval_expired: final(
    'The approval has expired: it was not answered or not used in time, or the gate has changed. It was not denied.',
  ),
  approval_used: final('The approval was already used.'),
  approval_mismatch: final('The approval_id does not match this request.'),
  approvals_pending_exceeded: passing(
    'Too many requests of this passport are pending approval at this gate.',
    null,
  ),
  wallet_limit_exceeded: passing('A limit of the wallet that pays for this passport is used up.', null),
  wallet_frozen: final('The wallet that pays for this passport, or one above it, is frozen.'),
};
