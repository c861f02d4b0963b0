import type { AccountId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { SpooledRecord } from '../../shared/wire/sync.ts';
import { leasesOf } from '../quota/held-view.ts';
import type { Attempt } from './check.ts';

/**
 * The record of a decision, in the chain of the passport if its token verified, else of the gate, else of the
 * account: a made-up token must not write into the chain of the passport it names (contract §9). A key that
 * was found to be compromised after its token was remembered has verified nothing either.
 */
export function recordOf(
  made: Attempt,
  about: {
    readonly requestHash: string;
    /** As it may be recorded. */
    readonly permissionKey: PermissionKey | null;
    readonly callerMode: Mode;
    readonly accountId: AccountId;
  },
): SpooledRecord {
  const { decision, facts } = made;
  const passport =
    facts.kind === 'verified' && decision.reason !== 'passport_unknown_key' ? facts.passport : null;
  const gateId = made.gate?.gateId ?? null;
  const took =
    decision.outcome === 'PERMIT' && decision.charge !== null && made.view !== null
      ? leasesOf(made.view, decision.charge)
      : undefined;
  return {
    id: made.attestationId,
    request_hash: about.requestHash,
    amount_micro_usd: decision.amountMicroUsd,
    timestamp_ms: made.nowMs,
    ...(took === undefined ? {} : { took }),
    chain_id: passport?.passportId ?? gateId ?? about.accountId,
    passport_id: passport?.passportId ?? null,
    token_hash: passport?.tokenHash ?? null,
    gate_id: gateId,
    decision: decision.outcome,
    reason: decision.reason,
    permission_key: about.permissionKey,
    constraints_evaluated: decision.evaluated,
    pii: decision.pii,
    caller_mode: about.callerMode,
  };
}
