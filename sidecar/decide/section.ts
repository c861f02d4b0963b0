import { mayBePending } from '../../shared/decision/check-approval.ts';
import { type CompiledGate, type CompiledPolicy, noGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  noWindows,
  type PassportFacts,
  type PassportStanding,
  type RequestFacts,
  type VerifiedPassport,
} from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PiiControls } from '../../shared/model/constraints.ts';
import type { AccountId, AttestationId } from '../../shared/model/ids.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { Spool } from '../attest/spool.ts';
import { leasesOf } from '../quota/held-view.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import type { Reservation } from '../quota/reservation.ts';
import { type Authenticate, type Caller, type KnownCallers, refuseSuspended } from './callers.ts';
import type { Attempt, CheckedToken, OpenRequest } from './check.ts';
import { recordOf } from './record.ts';
import type { ScanBudget } from './scan-budget.ts';
import { permitOf, suspendOf } from '../settle/settlement-of.ts';
import type { SettlementToVoid } from '../settle/settlement-voids.ts';
import type { UnsentSettlement } from '../settle/settlements.ts';

/**
 * What a decision reads of the replica. Every question is answered from memory, with what is in force at that
 * moment.
 */
interface EnforcementState extends KnownCallers {
  /** Null until the first snapshot is loaded: nothing can be decided before. */
  readonly accountId: AccountId | null;
  /** Of the sidecar's account, not deleted; whatever text is asked for. */
  gate(gateId: string): CompiledGate | null;
  /** `nowMs`: of this moment. */
  standing(passport: VerifiedPassport, nowMs: MonotonicMillis): PassportStanding;
}

export interface SectionDeps {
  readonly state: EnforcementState;
  readonly authenticate: Authenticate;
  readonly leases: Pick<LeaseHolder, 'holder' | 'view' | 'take' | 'reserve'>;
  /** Where records go before answers do. */
  readonly spool: Pick<Spool, 'isFull' | 'append' | 'appendParts' | 'appendVoid'>;
  readonly scans: ScanBudget;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * THE SYNCHRONOUS SECTION begins here: who asks, at which gate, with what passport, what the request says and
 * what is left are read and decided on; the caller then takes and records with nothing awaited in between
 * (`recordDecision`, `reserveFor`), so that one moment's state decides and is recorded. A request that had to
 * wait comes here again and is decided as a whole: whatever it saw before has aged.
 *
 * `momentMs`: when this section began, by the one reading of the clock that everything in it goes by. Null:
 * enough was scanned in this turn of the event loop; try again in the next. Throws ApiError for a key
 * or a gate that went meanwhile; nothing is taken then.
 */
export function decideRequest(
  deps: SectionDeps,
  open: OpenRequest,
  momentMs: MonotonicMillis,
): Attempt | null {
  const { state, clock, random } = deps;
  const nowMs = clock.now(momentMs);
  authenticateAgain(deps, open, nowMs);
  const gate = open.gateId === null ? null : findGate(state, open.gateId, open.caller);
  const policy = gate ?? policyWithoutGate(deps, open);
  const facts = factsOf(deps, must(open.token, 'a request is decided when its token is settled'), momentMs);
  const isScanned = facts.kind === 'refused' || policy.pii === null || open.scannedFor === policy.pii.types;
  if (!isScanned && deps.scans.isSpent) return null;
  const read = isScanned ? requestOf(open) : deps.scans.spend(() => scan(open, policy.pii));
  const { waiting } = open;
  const request = waiting === null ? read : waiting.run.known(read);
  const view =
    facts.kind === 'refused' ? null : deps.leases.view(gate, facts.passport, waiting?.shortage ?? null);

  const decision = decide(policy, facts, request, view ?? noWindows, nowMs);
  const attempt: Attempt = {
    decision,
    attestationId: random.newId('att', nowMs),
    approval: null,
    redacted: decision.isRedacted ? deps.scans.spend(() => redactedOf(open, policy.pii)) : null,
    nowMs,
    gate,
    facts,
    request,
    view,
    mayBePending: facts.kind === 'verified' && mayBePending(policy, facts.passport, request, decision),
  };
  open.attempt = attempt;
  return attempt;
}

/** The key may have been deleted while the body was on its way. */
export function authenticateAgain(
  { state, authenticate }: Pick<SectionDeps, 'state' | 'authenticate'>,
  { authorization }: Pick<OpenRequest, 'authorization'>,
  nowMs: UnixMillis,
): void {
  if (authorization === null) refuseSuspended(state);
  else authenticate(authorization, 'enforcement:check', nowMs);
}

const policyWithoutGate = ({ state }: SectionDeps, { caller }: OpenRequest): CompiledPolicy =>
  noGate({ accountId: must(state.accountId, 'a state that was loaded stays'), mode: caller.mode });

/**
 * Takes what the decision costs and appends its record, in the section that decided. For good, also where the
 * write fails: the record may turn up in the log all the same, and no log may show more than a limit allows.
 * The spool is not full.
 */
export function recordDecision(deps: SectionDeps, open: OpenRequest, made: Attempt): void {
  const { decision, view } = made;
  if (decision.charge !== null && view !== null) deps.leases.take(view, decision.charge);
  deps.spool.append(recordOf(made, aboutRecord(deps, open, made.gate)), open);
}

/** What a decision takes for a settlement, and the settlement; in the section that decided. */
export interface Prepared {
  readonly settlement: UnsentSettlement;
  readonly reservation: Reservation;
  /** See SettledRequest.reader_id. */
  readonly readerId: AttestationId;
  /** What voids it, but for its reading. */
  readonly voids: SettlementToVoid;
}

export function preparePermit(deps: SectionDeps, open: OpenRequest, made: Attempt): Prepared {
  const { view, charge } = chargeOf(made);
  const record = recordOf(made, aboutRecord(deps, open, made.gate));
  const reservation = deps.leases.reserve(view, charge);
  const voids = voidOf(made.attestationId, made, leasesOf(view, charge));
  const readerId = newReaderId(deps, made);
  return { settlement: permitOf(made, { readerId, record }), reservation, readerId, voids };
}

export function prepareSuspend(deps: SectionDeps, open: OpenRequest, made: Attempt): Prepared {
  const { view, charge } = chargeOf(made);
  const approvalId = deps.random.newId('appr', made.nowMs);
  const permissionKey = recordedPermission(deps, open, made.gate);
  const reservation = deps.leases.reserve(view, charge);
  const readerId = newReaderId(deps, made);
  const settlement = suspendOf(made, { readerId, approvalId, permissionKey, held: reservation.held() });
  return { settlement, reservation, readerId, voids: voidOf(approvalId, made, leasesOf(view, charge)) };
}

export const newReaderId = ({ random }: Pick<SectionDeps, 'random'>, { nowMs }: Attempt): AttestationId =>
  random.newId('att', nowMs);

const voidOf = (
  id: SettlementToVoid['voids'],
  { decision }: Attempt,
  took: readonly number[] | undefined,
): Prepared['voids'] => ({
  voids: id,
  ...(took === undefined ? {} : { took }),
  amount_micro_usd: decision.amountMicroUsd,
});

const chargeOf = ({ view, decision }: Attempt) => ({
  view: must(view, 'only a verified passport is charged'),
  charge: must(decision.charge, 'what is settled has a charge'),
});

/** Who asked may see only gates of his own mode; another mode's gate does not exist for him (contract §2). */
export function findGate(
  state: EnforcementState,
  gateId: string,
  caller: Pick<Caller, 'mode'>,
): CompiledGate {
  const gate = state.gate(gateId);
  if (gate === null || gate.mode !== caller.mode) throw new ApiError('gate_not_found');
  return gate;
}

function factsOf({ state }: SectionDeps, token: CheckedToken, momentMs: MonotonicMillis): PassportFacts {
  if (token.kind === 'refused') return token;
  const { passport } = token;
  return { kind: 'verified', passport, standing: state.standing(passport, momentMs) };
}

const requestOf = (open: OpenRequest): RequestFacts =>
  must(open.request, 'the body is parsed before the token is verified');

/** Once for the types of one version of the gate, however often it is decided. */
function scan(open: OpenRequest, controls: PiiControls | null): RequestFacts {
  const { types } = must(controls, 'a gate without PII controls has nothing scanned');
  const scanned = { ...requestOf(open), pii: scanPii(must(open.asked, 'a request that was parsed'), types) };
  open.request = scanned;
  open.scannedFor = types;
  return scanned;
}

/**
 * The request as its caller wrote it, without what the controls look for. Its scan was complete, or it would
 * be blocked.
 */
export function redactedOf(open: OpenRequest, controls: PiiControls | null): Attempt['redacted'] {
  const { types } = must(controls, 'only PII controls redact');
  const { pii } = requestOf(open);
  const scan = open.scannedFor === types && pii !== null ? pii : undefined;
  return redactRequest(must(open.asked, 'a request that was parsed'), types, scan);
}

const aboutRecord = (deps: SectionDeps, open: OpenRequest, gate: CompiledGate | null) => ({
  requestHash: requestOf(open).requestHash,
  permissionKey: recordedPermission(deps, open, gate),
  callerMode: open.caller.mode,
  accountId: must(deps.state.accountId, 'a state that was loaded stays'),
});

/** At a gate with PII controls it is scanned, within what a turn may spend on that. */
function recordedPermission(
  deps: SectionDeps,
  open: OpenRequest,
  gate: CompiledGate | null,
): PermissionKey | null {
  const { permissionKey } = requestOf(open);
  const controls = gate?.pii ?? null;
  return controls === null
    ? permissionKey
    : deps.scans.spend(() => permissionOnRecord(permissionKey, controls));
}
