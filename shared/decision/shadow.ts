import type { CarriedMembers } from '../model/attestation.ts';
import type { UnixMillis } from '../model/time.ts';
import type { CompiledPolicy, CompiledShadow } from './compile-gate.ts';
import { decide } from './decide.ts';
import type { PassportFacts, QuotaView, RequestFacts, WindowView } from './facts.ts';

/** What a record says of a shadow (contract §9). */
export type ShadowVerdict = NonNullable<CarriedMembers['shadow']>;

/**
 * Why a shadow could not decide; `reason` of such a verdict. `proof`: nobody has verified the proof that it
 * demands; `approval`: nobody was asked for the presented approval; `token`: see `trustsOthers`; `scan`: the
 * time for scans was spent; `state`: the control plane overruled the decision; `error`: a fault of ours.
 */
export type Undecided = 'proof' | 'approval' | 'token' | 'scan' | 'state' | 'error';

export const undecidedShadow = (policyHash: string, why: Undecided): ShadowVerdict => ({
  condition: null,
  decision: null,
  policy_hash: policyHash,
  reason: why,
});

/**
 * What the shadow says to a request that the gate has decided, on the same facts. Limits of windows and
 * wallets are passed over, and standing approvals are none: they are of the live policy. `scanned`: the
 * request as that decision had it, scanned for the types of the shadow; null: there was no time for that.
 * Answers null where the shadow has expired. Total: what is wrong with a shadow must not fail the request.
 */
export function decideShadow(
  shadow: CompiledShadow,
  facts: PassportFacts,
  scanned: () => RequestFacts | null,
  nowMs: UnixMillis,
): ShadowVerdict | null {
  const { policyHash, expiresAtMs } = shadow;
  if (nowMs >= expiresAtMs) return null;
  try {
    const request = scanned();
    return request === null ? undecidedShadow(policyHash, 'scan') : verdictOf(shadow, facts, request, nowMs);
  } catch {
    return undecidedShadow(policyHash, 'error');
  }
}

function verdictOf(
  shadow: CompiledShadow,
  facts: PassportFacts,
  request: RequestFacts,
  nowMs: UnixMillis,
): ShadowVerdict {
  const { policy, policyHash, trustsOthers } = shadow;
  if (facts.kind === 'refused' && facts.reason === 'issuer_untrusted' && trustsOthers)
    return undecidedShadow(policyHash, 'token');
  const { outcome, reason, unknown, condition } = decide(
    policy,
    facts,
    request,
    roomIn(policy, facts),
    nowMs,
  );
  if (unknown !== null) return undecidedShadow(policyHash, unknown === 'leases' ? 'error' : unknown);
  return { condition, decision: outcome, policy_hash: policyHash, reason };
}

const roomy: WindowView = Object.freeze({
  limit: Number.MAX_SAFE_INTEGER,
  available: Number.MAX_SAFE_INTEGER,
  used: 0,
  isFinal: true,
  endsAtMs: 0 as UnixMillis,
});

/** By the numbers of windows of money and of requests; there are few. */
const rooms = new Map<number, QuotaView>();
/** No policy and passport have as many windows. */
const windowsMax = 64;

/** Every window has room for everything. */
function roomIn(policy: CompiledPolicy, facts: PassportFacts): QuotaView {
  const passport = facts.kind === 'verified' ? facts.passport : null;
  const spend = policy.spendWindows.length + (passport?.spendWindows.length ?? 0);
  const rate = policy.rateWindows.length + (passport?.rateWindows.length ?? 0);
  const key = spend * windowsMax + rate;
  let room = rooms.get(key);
  if (room === undefined) {
    room = {
      spend: Array.from({ length: spend }, () => roomy),
      rate: Array.from({ length: rate }, () => roomy),
      standingApprovals: [],
      wallet: null,
    };
    rooms.set(key, room);
  }
  return room;
}
