import { provenBy } from '../../shared/decision/check-proof.ts';
import type { Decision } from '../../shared/decision/facts.ts';
import type { ShadowVerdict } from '../../shared/decision/shadow.ts';
import { type CarriedMembers, emptyExtras, noCarried } from '../../shared/model/attestation.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import { domainOnRecord } from '../../shared/pii/domain-on-record.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { CheckInput, EnforcementCall } from './enforcement.ts';

const carriedOf = ({ conditions }: Decision, shadow: ShadowVerdict | null): CarriedMembers | null =>
  conditions === null && shadow === null ? null : { ...noCarried, conditions, shadow };

/**
 * The record goes into the chain of the verified passport, else of the gate, else of the requesting account,
 * so that no account can write into the chain of a passport it does not hold (contract §9).
 */
export function newRecord(
  { caller, verdict, isTest }: EnforcementCall,
  input: CheckInput & { readonly decision: Decision; readonly shadow: ShadowVerdict | null },
  attestationId: AttestationId,
): NewRecord {
  const { gate, policy, passport, request, drawn, decision, shadow, nowMs } = input;
  return {
    record: {
      id: attestationId,
      chainId: passport?.passportId ?? gate?.gateId ?? caller.accountId,
      passportId: passport?.passportId ?? null,
      gateId: gate?.gateId ?? null,
      decision: decision.outcome,
      reason: decision.reason,
      requestHash: request.requestHash,
      permissionKey: permissionOnRecord(request.permissionKey, policy.pii),
      amountMicroUsd: decision.amountMicroUsd,
      constraintsEvaluated: decision.evaluated,
      pii: decision.pii,
      test: isTest,
      resolution: null,
      refersTo: null,
      source: 'control-plane',
      sourceAccount: caller.accountId,
      timestampMs: nowMs,
      ...emptyExtras,
      policyHash: gate?.policyHash ?? null,
      trustLevel: gate?.trustLevel ?? null,
      domain: domainOnRecord(request.domain, policy.pii),
      holdExpiresAtMs: decision.hold?.expiresAtMs ?? null,
      proof: provenBy(decision, request),
      walletId: drawn.wallet?.walletId ?? null,
      walletPath: passport === null ? null : (drawn.wallet?.path ?? []),
      approvalId:
        decision.standingApproval?.standingApprovalId ??
        (decision.outcome === 'PERMIT' ? request.approvalId : null),
      asserted: verdict.kind === 'named',
      carried: carriedOf(decision, shadow),
    },
    passportOwner: passport === null ? null : { accountId: passport.accountId, mode: passport.mode },
    gateOwner: { accountId: caller.accountId, mode: caller.mode },
  };
}
