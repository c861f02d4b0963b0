import { demandedApprovalMs } from '../../shared/decision/check-approval.ts';
import {
  type CompiledGate,
  type CompiledPolicy,
  compileGate,
  noGate,
} from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { Decision, PassportFacts, RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ApprovalId, GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import type { TokenVerdict } from '../../shared/verification/verify-token.ts';
import type { RequestObject } from '../../shared/wire/check.ts';
import { type ApprovalBinding, findPendingApproval, readStanding } from '../approvals/approval-store.ts';
import type { Deps, Transaction } from '../deps.ts';
import { findGate } from '../gates/gate-store.ts';
import type { Caller } from '../http/auth.ts';
import { askedView, type DrawnWindows, drawnWindows, noDraws, unaskedView } from './drawn-windows.ts';
import { findStanding } from './standing-store.ts';

export interface EnforcementCall {
  readonly caller: Caller;
  /** Null: `/enforce` for a passport alone. */
  readonly gateId: GateId | null;
  readonly verdict: TokenVerdict;
  /** As its caller wrote it: what is scanned for personal data. */
  readonly asked: RequestObject;
  readonly request: RequestFacts;
  /** A gate test: attested as such, and counted nowhere. It takes and opens nothing, and claims no idempotency key. */
  readonly isTest: boolean;
}

/** An approval under which a request waits. */
export interface Waiting {
  readonly approvalId: ApprovalId;
  readonly expiresAtMs: UnixMillis;
}

/** A decision, and what it was made on. Nothing is taken yet, and no row is locked. */
export interface Judgement {
  readonly decision: Decision;
  readonly gate: CompiledGate | null;
  readonly policy: CompiledPolicy;
  /** Null where no passport verified. */
  readonly passport: VerifiedPassport | null;
  readonly request: RequestFacts;
  readonly drawn: DrawnWindows;
  /** Of a SUSPEND that waits already; null: there is none, or nobody has looked. */
  readonly waiting: Waiting | null;
  readonly nowMs: UnixMillis;
}

/**
 * Decides with what the database knows now. What `decide` does not know it is told, by asking the ledger or the store of approvals and deciding again, so
 * that a BLOCK by an earlier check asks neither. `asksNobody`: it is told nothing more, and `quota_unavailable` stands.
 *
 * A gate that is not the caller's, or of the other mode, is `gate_not_found` (decisions §2).
 */
export async function judgeRequest(
  tx: Transaction,
  deps: Pick<Deps, 'clock'>,
  call: EnforcementCall,
  { asksNobody }: { readonly asksNobody: boolean },
): Promise<Judgement> {
  const gate = call.gateId === null ? null : await readGate(tx, call.caller, call.gateId);
  const policy = gate ?? noGate(call.caller);
  const facts = await readFacts(tx, call.verdict);
  const nowMs = deps.clock.now();
  const passport = facts.kind === 'verified' ? facts.passport : null;
  const drawn = passport === null ? noDraws : drawnWindows(policy, gate, passport);

  let request =
    policy.pii === null ? call.request : { ...call.request, pii: scanPii(call.asked, policy.pii.types) };
  const unasked = unaskedView(drawn);
  let quota = unasked;
  let waiting: Waiting | null = null;
  for (;;) {
    const decision = decide(policy, facts, request, quota, nowMs);
    const judgement = { decision, gate, policy, passport, request, drawn, waiting, nowMs };
    if (asksNobody) return judgement;
    const binding = bindingOf(judgement);
    // What is above a whole limit is blocked whatever was used of it, and its answer says how much that is.
    if (decision.unknown === 'leases' || (decision.limitMiss !== null && quota === unasked)) {
      quota = await askedView(tx, drawn, nowMs);
    } else if (decision.unknown === 'approval') {
      const approvalId = must(request.approvalId, 'an approval that is not known was presented');
      const { standing, expiresAtMs } = await readStanding(
        tx,
        approvalId,
        must(binding, 'it is at a gate'),
        nowMs,
      );
      request = { ...request, approval: standing };
      if (standing === 'pending')
        waiting = { approvalId, expiresAtMs: must(expiresAtMs, 'what is pending ends') };
    } else if (binding !== null && mayWaitAlready(judgement)) {
      waiting = await findPendingApproval(tx, binding);
      if (waiting === null || waiting.expiresAtMs <= nowMs) return { ...judgement, waiting: null };
      request = { ...request, approval: 'pending' };
    } else return judgement;
  }
}

/**
 * The same request, while it is pending, answers the same approval and holds nothing more (decisions §8): so what it holds already must
 * not be the reason that there is too little left for it.
 */
const mayWaitAlready = ({ decision, policy, passport, request }: Judgement): boolean =>
  decision.reason === 'spend_limit_exceeded' &&
  request.approval === 'none' &&
  passport !== null &&
  demandedApprovalMs(policy, passport, request, decision.amountMicroUsd) !== null;

/** Null: without a gate or without a passport there is nothing that an approval could be bound to. */
export const bindingOf = ({
  gate,
  passport,
  request,
}: Pick<Judgement, 'gate' | 'passport' | 'request'>): ApprovalBinding | null =>
  gate === null || passport === null
    ? null
    : {
        passportId: passport.passportId,
        gateId: gate.gateId,
        gateVersion: gate.policyVersion,
        requestHash: request.requestHash,
      };

async function readGate(tx: Transaction, caller: Caller, gateId: GateId): Promise<CompiledGate> {
  const gate = await findGate(tx, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found');
  return compileGate(gate, gate.catalogTerms);
}

async function readFacts(tx: Transaction, verdict: TokenVerdict): Promise<PassportFacts> {
  if (verdict.kind === 'refused') return verdict;
  const known = await findStanding(tx, verdict.passport);
  // A signature that nobody here made: the key is no longer ours alone, whatever it signs.
  if (known === null) return { kind: 'refused', reason: 'passport_unknown_key' };
  return { kind: 'verified', passport: verdict.passport, standing: known.standing };
}
