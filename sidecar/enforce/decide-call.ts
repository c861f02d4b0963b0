import { demandedApprovalMs } from '../../shared/decision/check-approval.ts';
import { type CompiledGate, type CompiledPolicy, noGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  type Decision,
  noWindows,
  type PassportFacts,
  type PassportStanding,
  type RequestFacts,
  type VerifiedPassport,
} from '../../shared/decision/facts.ts';
import { mayBeReplay } from '../../shared/decision/may-be-replay.ts';
import { pendingExceeded } from '../../shared/decision/pending-exceeded.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PiiControls } from '../../shared/model/constraints.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { Spool } from '../attest/spool.ts';
import type { LeaseHolder } from '../leases/lease-holder.ts';
import type { Call, Made, SettledToken } from './call.ts';
import type { Authenticate, Caller, KnownCallers } from './callers.ts';
import { recordOf } from './record-of.ts';
import type { ScanBudget } from './scan-budget.ts';
import type { PreparedSettlement } from './settle.ts';
import { permitOf, suspendOf } from './settlement-of.ts';

/** What a decision reads of the replica. Every question is answered from memory, with what is in force at that moment. */
interface EnforcementState extends KnownCallers {
  /** Null until the first snapshot is loaded: nothing can be decided before. */
  readonly accountId: AccountId | null;
  /** Of the sidecar's account, not deleted; whatever text is asked for. */
  gate(gateId: string): CompiledGate | null;
  standing(passport: VerifiedPassport): PassportStanding;
}

export interface SectionDeps {
  readonly state: EnforcementState;
  readonly authenticate: Authenticate;
  readonly leases: Pick<LeaseHolder, 'holder' | 'view' | 'take' | 'reserve' | 'heldOf'>;
  /** Where records go before answers do. */
  readonly spool: Pick<Spool, 'isFull' | 'append'>;
  readonly scans: ScanBudget;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * What a call needs after a pass of `decideCall`:
 *
 *   recorded   its record is appended; it is answered when that is written
 *   leases     units that are not held here; then it decides again
 *   look_up    what the control plane knows of its key or approval; then it decides again
 *   settle     that the control plane makes `call.settlement` true
 *   later      another turn of the event loop: enough was scanned in this one
 *   answer     nothing: what it is answered stands in a record that was committed before, or in none yet
 */
type Step = 'recorded' | 'leases' | 'look_up' | 'settle' | 'later' | 'answer';

/**
 * THE SYNCHRONOUS SECTION: who asks, at which gate, with what passport, what stands in the request and what is left are read, decided on, taken
 * and recorded with nothing awaited in between, so that one moment's state decides and is recorded. A call that had to wait comes here
 * again and is decided as a whole: whatever it saw before has aged.
 *
 * Throws ApiError for a key or a gate that went meanwhile; nothing is taken then. The spool is not full.
 */
export function decideCall(deps: SectionDeps, call: Call): Step {
  const { state, clock, random } = deps;
  const nowMs = clock.now();
  // The key may have been deleted while the body was on its way.
  deps.authenticate(call.authorization, 'enforcement:check', nowMs);
  const gate = call.gateId === null ? null : findGate(state, call.gateId, call.caller);
  const policy = gate ?? policyWithoutGate(deps, call);
  const facts = factsOf(state, must(call.token, 'a call is decided when its token is settled'));
  const isScanned = facts.kind === 'refused' || policy.pii === null || call.scannedFor === policy.pii.types;
  if (!isScanned && deps.scans.isSpent) return 'later';
  const request = isScanned ? requestOf(call) : deps.scans.spend(() => scan(call, policy.pii));
  const view =
    facts.kind === 'refused' ? null : deps.leases.view(gate, facts.passport, call.waiting?.refusal ?? null);

  const found = decide(policy, facts, request, view ?? noWindows, nowMs);
  const step = nextStep(call, policy, facts, found);
  const decision = decisionAt(step, found);
  const made: Made = {
    decision,
    attestationId: random.newId('att', nowMs),
    approval: null,
    redacted: decision.isRedacted ? deps.scans.spend(() => redactedOf(call, policy.pii)) : null,
    nowMs,
    gate,
    facts,
    view,
  };
  call.made = made;
  if (step === 'settle') call.settlement = prepareSettlement(deps, call, made);
  if (step !== 'record' && step !== 'give_up' && step !== 'pending_exceeded') return step;

  // For good, also where the write fails: the record may turn up in the log all the same, and no log may show more than a limit allows.
  if (decision.charge !== null && view !== null) deps.leases.take(view, decision.charge);
  deps.spool.append(recordOf(made, aboutRecord(deps, call, gate)), call);
  return 'recorded';
}

const policyWithoutGate = ({ state }: SectionDeps, { caller }: Call): CompiledPolicy =>
  noGate({ accountId: must(state.accountId, 'a state that was loaded stays'), mode: caller.mode });

/** Who asked may see only gates of his own mode; another mode's gate does not exist for him (decisions §2). */
export function findGate(state: EnforcementState, gateId: string, caller: Caller): CompiledGate {
  const gate = state.gate(gateId);
  if (gate === null || gate.mode !== caller.mode) throw new ApiError('gate_not_found');
  return gate;
}

function factsOf(state: EnforcementState, token: SettledToken): PassportFacts {
  if (token.kind === 'refused') return token;
  return { kind: 'verified', passport: token.passport, standing: state.standing(token.passport) };
}

const requestOf = (call: Call): RequestFacts =>
  must(call.request, 'the body is parsed before the token is verified');

/** Once for the types of one version of the gate, however often it is decided. */
function scan(call: Call, controls: PiiControls | null): RequestFacts {
  const { types } = must(controls, 'a gate without PII controls has nothing scanned');
  const scanned = { ...requestOf(call), pii: scanPii(must(call.asked, 'a request that was parsed'), types) };
  call.request = scanned;
  call.scannedFor = types;
  return scanned;
}

/** The request as its caller wrote it, without what the controls look for. Its scan was complete, or it would be blocked. */
export function redactedOf(call: Call, controls: PiiControls | null): Made['redacted'] {
  const { types } = must(controls, 'only PII controls redact');
  const { pii } = requestOf(call);
  const scan = call.scannedFor === types && pii !== null ? pii : undefined;
  return redactRequest(must(call.asked, 'a request that was parsed'), types, scan);
}

/** `record`: as it was found. `give_up` and `pending_exceeded`: as the BLOCK that `decisionAt` makes of it. */
type NextStep = 'record' | 'give_up' | 'pending_exceeded' | Exclude<Step, 'recorded'>;

function decisionAt(step: NextStep, found: Decision): Decision {
  if (step === 'give_up') return unavailable(found);
  return step === 'pending_exceeded' ? pendingExceeded(found) : found;
}

/**
 * A BLOCK that no earlier PERMIT can be the reason of stands, whatever the control plane knows. What may be known there already is asked before anything
 * is leased: a request that was permitted or waits under another sidecar needs no units, and must not keep any from others.
 */
function nextStep(call: Call, policy: CompiledPolicy, facts: PassportFacts, decision: Decision): NextStep {
  const { idempotencyKey, approvalId } = requestOf(call);
  const { waiting } = call;
  const { outcome } = decision;
  if (outcome === 'PERMIT' && idempotencyKey === null && approvalId === null) return 'record';
  if (outcome === 'BLOCK' && !mayBeReplay(decision)) return 'record';
  if (waiting !== null && waiting.first !== null) return 'answer';
  if (waiting?.isGivenUp === true) return 'give_up';
  if (outcome === 'SUSPEND' && decision.charge === null) return 'answer';
  if (outcome === 'SUSPEND' && waiting?.isPendingExceeded === true) return 'pending_exceeded';
  if (outcome !== 'BLOCK') return 'settle';
  if (decision.unknown === 'approval') return 'look_up';
  const mayBeKnown = idempotencyKey !== null || mayWaitAlready(call, policy, facts, decision);
  if (mayBeKnown && waiting?.isLookedUp !== true) return 'look_up';
  return decision.unknown === 'leases' && waiting?.areLeasesUnavailable !== true ? 'leases' : 'record';
}

/** The same request may be pending, and hold the very units that it lacks now: it is answered with that approval then (decisions §8). */
function mayWaitAlready(
  call: Call,
  policy: CompiledPolicy,
  facts: PassportFacts,
  { amountMicroUsd }: Decision,
): boolean {
  const request = requestOf(call);
  if (call.gateId === null || facts.kind === 'refused' || request.approvalId !== null) return false;
  return demandedApprovalMs(policy, facts.passport, request, amountMicroUsd) !== null;
}

/** What stands where the control plane could not be asked, or could not make the decision true. */
const unavailable = (decision: Decision): Decision => ({
  ...decision,
  outcome: 'BLOCK',
  reason: 'quota_unavailable',
  charge: null,
  limitMiss: null,
  unknown: null,
  isRedacted: false,
  approvalExpiresInMs: null,
});

/** Takes what the decision costs, to be given back if it does not come true. */
function prepareSettlement(deps: SectionDeps, call: Call, made: Made): PreparedSettlement {
  const { leases, random } = deps;
  const { decision, nowMs } = made;
  const request = requestOf(call);
  const charge = must(decision.charge, 'what is settled has a charge');
  const taken = leases.reserve(must(made.view, 'only a verified passport is charged'), charge);
  const settlement =
    decision.outcome === 'PERMIT'
      ? permitOf(made, request, recordOf(made, aboutRecord(deps, call, made.gate)))
      : suspendOf(made, request, {
          approvalId: random.newId('appr', nowMs),
          permissionKey: recordedPermission(deps, call, made.gate),
          held: leases.heldOf(taken),
        });
  return { settlement, holder: leases.holder, taken };
}

const aboutRecord = (deps: SectionDeps, call: Call, gate: CompiledGate | null) => ({
  requestHash: requestOf(call).requestHash,
  permissionKey: recordedPermission(deps, call, gate),
  callerMode: call.caller.mode,
  accountId: must(deps.state.accountId, 'a state that was loaded stays'),
});

/** At a gate with PII controls it is scanned, within what a turn may spend on that. */
function recordedPermission(deps: SectionDeps, call: Call, gate: CompiledGate | null): PermissionKey | null {
  const { permissionKey } = requestOf(call);
  const controls = gate?.pii ?? null;
  return controls === null
    ? permissionKey
    : deps.scans.spend(() => permissionOnRecord(permissionKey, controls));
}
