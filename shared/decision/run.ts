import { assert, InvariantError, must, unreachable } from '../errors/assert.ts';
import type { PresentedApproval } from '../model/approval.ts';
import type { PiiFinding } from '../model/attestation.ts';
import type { CheckName } from '../model/decision.ts';
import type { PermitHold } from '../model/hold.ts';
import type { ApprovalId, AttestationId } from '../model/ids.ts';
import type { UnixMillis } from '../model/time.ts';
import type { Decision, RequestFacts } from './facts.ts';
import { mayBeReplay } from './may-be-replay.ts';
import { type OverrulingReason, overruled } from './overruled.ts';

/** The answered first PERMIT of an idempotency key. */
export interface FirstPermit {
  readonly attestationId: AttestationId;
  readonly constraintsEvaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
  /** Null: its amount was not held. */
  readonly hold: PermitHold | null;
}

/** The pending approval of a request. */
export interface PendingApproval {
  readonly approvalId: ApprovalId;
  readonly expiresAtMs: UnixMillis;
}

/** Events from the host. `Run` defines which state accepts which event. */
export type RunEvent =
  /** Units: everything the request needs can be taken now. */
  | { readonly kind: 'granted' }
  /** Units: the ledger was asked for this request and has too few. */
  | { readonly kind: 'refused' }
  /**
   * Look-up: the key is unknown and no approval is pending. `mayChange`: a copy of the request may still use
   * the missing units.
   */
  | { readonly kind: 'none'; readonly mayChange: boolean }
  /** State of the approval that the request presents. */
  | {
      readonly kind: 'approval';
      readonly state: Exclude<PresentedApproval, 'none' | 'unasked'>;
      readonly expiresAtMs: UnixMillis | null;
    }
  /** The request is pending under this approval, newly opened or found. */
  | { readonly kind: 'suspended'; readonly approval: PendingApproval }
  | { readonly kind: 'committed' }
  /** The key belongs to this earlier PERMIT of the same request. */
  | { readonly kind: 'replayed'; readonly first: FirstPermit }
  /** The key belongs to another request. */
  | { readonly kind: 'conflict' }
  /** The database has a reason to block that this decision missed. */
  | { readonly kind: 'blocked'; readonly reason: OverrulingReason }
  /**
   * The settlement was not started, or rolled back: nothing was taken. The same request may succeed later.
   */
  | { readonly kind: 'declined' }
  /** The settlement lost a race; the request may succeed when decided again. */
  | { readonly kind: 'passed' }
  /** Waiting: one pause is over. */
  | { readonly kind: 'waited' }
  /** The control plane is known to be unreachable; the request to it had no effect. */
  | { readonly kind: 'away' }
  /** The deadline has passed, or the client disconnected. The outcome of anything sent is unknown. */
  | { readonly kind: 'late' }
  /** Recording and voiding: the entry is in the spool file, or committed. */
  | { readonly kind: 'written' };

/** The host's next step. It reports the result as an event, or, after `decide`, as a decision. */
export type RunEffect =
  | { readonly kind: 'decide' }
  /** Lease all units that a PERMIT of the last decision would take. */
  | { readonly kind: 'ask_leases' }
  /** Look up the key, the presented approval, and a pending approval of the same request. */
  | { readonly kind: 'look_up' }
  /** Take the charge of the last decision, and commit the PERMIT: key, approval, record. */
  | { readonly kind: 'settle_permit' }
  /** Take the money of the last decision, and open an approval that holds it. */
  | { readonly kind: 'settle_suspend' }
  /** Undo the sent settlement, committed or not. */
  | { readonly kind: 'void' }
  /** Pause for requests in flight, then decide on what is left. */
  | { readonly kind: 'wait' }
  /** Take the decision's charge and store its record durably, then answer. */
  | { readonly kind: 'record'; readonly decision: Decision }
  | { readonly kind: 'answer'; readonly answer: RunAnswer };

export type RunAnswer =
  /** The last decision: committed, or on record. */
  | { readonly kind: 'decision' }
  | { readonly kind: 'suspended'; readonly approval: PendingApproval }
  | { readonly kind: 'replay'; readonly first: FirstPermit }
  /** No decision: HTTP 503 or 409. The request has no effect. */
  | { readonly kind: 'error'; readonly code: 'overloaded' | 'idempotency_conflict' };

export type RunState =
  | 'deciding'
  | 'leasing'
  | 'looking'
  | 'settling'
  | 'waiting'
  | 'voiding'
  | 'recording'
  | 'answered';

/** Allowed transitions, asserted by the setter. */
const successors: Readonly<Record<RunState, readonly RunState[]>> = {
  deciding: ['leasing', 'looking', 'settling', 'waiting', 'recording', 'answered'],
  leasing: ['deciding', 'recording', 'answered'],
  looking: ['deciding', 'recording', 'answered'],
  settling: ['deciding', 'waiting', 'voiding', 'recording', 'answered'],
  waiting: ['deciding', 'answered'],
  voiding: ['answered'],
  recording: ['answered'],
  answered: [],
};

/**
 * A request that has to ask, from its first decision to its answer (contract §5 and §8). Pure: events in,
 * effects out; no clock, no I/O. Hosts: the sidecar (memory and HTTP), the control plane (one transaction),
 * tests (a map).
 *
 *   deciding ──a check blocks, whatever the rest──────────────────────────────────> recording ──written──> answered
 *    │  ^  ├───units are missing──> leasing ──granted, refused──> deciding             ^
 *    │  │  │                          └──away──> BLOCK quota_unavailable ──────────────┤
 *    │  │  ├───a limit blocks, or an approval is unknown──> looking ──none, approval──> deciding
 *    │  │  │                                                 └──away───────────────────┤
 *    │  │  └───PERMIT with a key or an approval, SUSPEND──> settling ──committed, suspended──> answered
 *    │  │                                                    │  ├──away, blocked───────┘
 *    │  └──approval, refused, replayed───────────────────────┤  └──late──> voiding ──written──> answered (503)
 *    │  ├──waited──<── waiting <──passed─────────────────────┘
 *    │  │                ├──late──> answered (503)
 *    ├──┼───a limit blocks that may change──^
 *    └──first PERMIT found, approval pending, conflict──> answered
 *
 * Order: units first, because they are usually here; then, only if a limit blocks, the key and a pending
 * approval of the same request, because a copy may have used the limit up; the settlement last. After each
 * wait the whole request is decided again, because its input has aged. Final BLOCKs take precedence over a
 * replay, so a revocation applies to replays too.
 *
 * A limit that may change is not final: a copy of the request may be using it up, and then its PERMIT is the
 * answer. The run waits for that in short pauses, as long as the host allows.
 *
 * `late` before anything was sent, and `declined`, end in 503 `overloaded`: they say nothing about the agent.
 * `late` after a settlement was sent voids it, so that no client that got 503 has a valid PERMIT.
 *
 * Not here: callers, gates and signatures (before the first decision); plain requests, which need no run
 * (`needsRun`).
 */
export class Run {
  #state: RunState = 'deciding';
  readonly #isKeyed: boolean;
  /** A gate test: takes and settles nothing. */
  readonly #isDryRun: boolean;
  /** The host keeps no leases, so a plain PERMIT is settled too. */
  readonly #settlesAll: boolean;
  /** The decision of the last pass. */
  #decision: Decision | null = null;
  /** A look-up has completed since the last refusal of units. */
  #isLookedUp = false;
  /** By that look-up: an uncommitted copy may have used up the blocking limit. */
  #mayChange = false;
  readonly #approvalId: ApprovalId | null;
  /** State of the approval that the request presents, or of a pending copy's. */
  #approval: Exclude<PresentedApproval, 'none' | 'unasked'> | null = null;
  #pending: PendingApproval | null = null;
  #first: FirstPermit | null = null;

  constructor(
    request: RequestFacts,
    {
      isDryRun = false,
      settlesAll = false,
    }: { readonly isDryRun?: boolean; readonly settlesAll?: boolean } = {},
  ) {
    this.#isKeyed = request.idempotencyKey !== null && !isDryRun;
    this.#settlesAll = settlesAll;
    this.#isDryRun = isDryRun;
    this.#approvalId = request.approvalId;
  }

  get state(): RunState {
    return this.#state;
  }

  /** Of the last pass. */
  get decision(): Decision {
    return must(this.#decision, 'a run begins with a decision');
  }

  /** The first PERMIT of its key was found: it is the answer, unless a final BLOCK applies. */
  get isReplay(): boolean {
    return this.#first !== null;
  }

  /** The request with the known state of its approval: input of the next pass. */
  known(request: RequestFacts): RequestFacts {
    // With the first PERMIT found, the state of the approval no longer matters; later checks still
    // decide.
    const isPassed = this.#first !== null && request.approval === 'unasked';
    const approval = this.#approval ?? (isPassed ? 'approved' : null);
    return approval === null ? request : { ...request, approval };
  }

  /** The result of `decide` on the request as `known` returns it. `mayBePending`: see mayBePending. */
  decided(decision: Decision, mayBePending: boolean): RunEffect {
    assert(this.#state === 'deciding', 'a run is given a decision when it asks for one');
    this.#decision = decision;
    const { outcome, unknown, limitMiss } = decision;
    if (outcome === 'BLOCK' && !mayBeReplay(decision)) return this.#record(decision);
    if (this.#first !== null) return this.#answer({ kind: 'replay', first: this.#first });
    if (unknown === 'approval') return this.#go('looking', { kind: 'look_up' });
    if (outcome !== 'BLOCK') return this.#commit(decision);
    if (unknown === 'leases') return this.#go('leasing', { kind: 'ask_leases' });
    const hasToAsk = this.#isKeyed || mayBePending;
    if (hasToAsk && !this.#isLookedUp) return this.#go('looking', { kind: 'look_up' });
    if (hasToAsk && !this.#isDryRun && this.#mayChange && limitMiss !== null && limitMiss.resetAtMs !== null)
      return this.#wait();
    return this.#record(decision);
  }

  #commit(decision: Decision): RunEffect {
    if (this.#isDryRun) return this.#record(decision);
    if (decision.outcome === 'PERMIT') {
      const isPlain = !this.#isKeyed && this.#approval === null && !this.#settlesAll;
      return isPlain ? this.#record(decision) : this.#go('settling', { kind: 'settle_permit' });
    }
    if (decision.charge !== null) return this.#go('settling', { kind: 'settle_suspend' });
    return this.#answer({
      kind: 'suspended',
      approval: must(this.#pending, 'an approval that is pending has an end'),
    });
  }

  /**
   * The result of the last effect. Throws if the state does not accept the event, which is a bug of the host.
   */
  on(event: RunEvent): RunEffect {
    switch (this.#state) {
      case 'leasing':
        return this.#onUnits(event);
      case 'looking':
        return this.#onLookUp(event);
      case 'settling':
        return this.#onSettlement(event);
      case 'waiting':
        return this.#onWaited(event);
      case 'voiding':
      case 'recording':
        return this.#onWritten(event);
      case 'deciding':
      case 'answered':
        return this.#unexpected(event);
      default:
        return unreachable(this.#state);
    }
  }

  #onUnits(event: RunEvent): RunEffect {
    switch (event.kind) {
      case 'granted':
        return this.#decideAgain();
      case 'refused':
        this.#isLookedUp = false;
        return this.#decideAgain();
      case 'away':
        return this.#block('quota_unavailable');
      case 'late':
        return this.#overloaded();
      default:
        return this.#unexpected(event);
    }
  }

  #onLookUp(event: RunEvent): RunEffect {
    switch (event.kind) {
      case 'none':
        this.#isLookedUp = true;
        this.#mayChange = event.mayChange;
        return this.#decideAgain();
      case 'suspended':
        this.#isLookedUp = true;
        this.#approval = 'pending';
        this.#pending = event.approval;
        return this.#decideAgain();
      case 'late':
        return this.#overloaded();
      default:
        return this.#onEither(event);
    }
  }

  #onSettlement(event: RunEvent): RunEffect {
    switch (event.kind) {
      case 'committed':
        return this.#answer({ kind: 'decision' });
      case 'suspended':
        return this.#answer({ kind: 'suspended', approval: event.approval });
      case 'refused':
        this.#isLookedUp = false;
        return this.#decideAgain();
      case 'passed':
        return this.#wait();
      case 'late':
        return this.#go('voiding', { kind: 'void' });
      default:
        return this.#onEither(event);
    }
  }

  /** Results that a look-up and a settlement have in common. */
  #onEither(event: RunEvent): RunEffect {
    switch (event.kind) {
      case 'approval':
        this.#isLookedUp = true;
        this.#approval = event.state;
        this.#pending = this.#presented(event.expiresAtMs);
        return this.#decideAgain();
      case 'replayed':
        this.#first = event.first;
        return this.#decideAgain();
      case 'conflict':
        return this.#answer({ kind: 'error', code: 'idempotency_conflict' });
      case 'blocked':
        return this.#block(event.reason);
      case 'declined':
        return this.#overloaded();
      case 'away':
        return this.#block('quota_unavailable');
      default:
        return this.#unexpected(event);
    }
  }

  #onWaited(event: RunEvent): RunEffect {
    if (event.kind === 'late') return this.#overloaded();
    if (event.kind !== 'waited') return this.#unexpected(event);
    return this.#decideAgain();
  }

  #onWritten(event: RunEvent): RunEffect {
    if (event.kind === 'late') return this.#overloaded();
    if (event.kind !== 'written') return this.#unexpected(event);
    return this.#state === 'voiding' ? this.#overloaded() : this.#answer({ kind: 'decision' });
  }

  #presented(expiresAtMs: UnixMillis | null): PendingApproval | null {
    const approvalId = must(this.#approvalId, 'an approval is found only where one is presented');
    return expiresAtMs === null ? null : { approvalId, expiresAtMs };
  }

  /** The wait outdates the look-up. */
  #wait(): RunEffect {
    this.#isLookedUp = false;
    this.#mayChange = false;
    return this.#go('waiting', { kind: 'wait' });
  }

  #decideAgain(): RunEffect {
    return this.#go('deciding', { kind: 'decide' });
  }

  #block(reason: OverrulingReason): RunEffect {
    this.#decision = overruled(this.decision, reason);
    return this.#record(this.#decision);
  }

  #record(decision: Decision): RunEffect {
    return this.#go('recording', { kind: 'record', decision });
  }

  #overloaded(): RunEffect {
    return this.#answer({ kind: 'error', code: 'overloaded' });
  }

  #answer(answer: RunAnswer): RunEffect {
    return this.#go('answered', { kind: 'answer', answer });
  }

  /** The only writer of the state. */
  #go(state: RunState, effect: RunEffect): RunEffect {
    assert(successors[this.#state].includes(state), 'a run takes only the transitions of its diagram');
    this.#state = state;
    return effect;
  }

  #unexpected(event: RunEvent): never {
    throw new InvariantError(`a run that is ${this.#state} takes no ${event.kind}`);
  }
}

/**
 * Whether the decision needs a question answered first. False for nearly all: a PERMIT without key and
 * approval, and a BLOCK that no earlier request can have caused. The host takes, records and answers these at
 * once, without a run.
 */
export function needsRun(decision: Decision, request: RequestFacts, mayBePending: boolean): boolean {
  if (decision.outcome === 'SUSPEND') return true;
  const hasToAsk = request.idempotencyKey !== null || request.approvalId !== null;
  if (decision.outcome === 'PERMIT') return hasToAsk;
  if (!mayBeReplay(decision)) return false;
  return hasToAsk || mayBePending || decision.unknown !== null;
}
