import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { Decision, RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { needsRun } from '../../shared/decision/run.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { renderChainPart, renderOutcomePart, renderRowHead } from '../../shared/wire/spooled-record.ts';
import { SharedPart } from '../attest/spool-segment.ts';
import { leasesOf } from '../quota/held-view.ts';
import { authenticateAgain, type SectionDeps } from './section.ts';
import { decideLimits } from './limits.ts';
import type { OpenRequest } from './check.ts';
import { DecisionReply } from './replies.ts';

/**
 * The short way of nearly every request: one PERMIT after the other, by passports and at gates that were seen
 * before. A request takes it if
 *
 * - its passport is known and it names a gate, of its caller's mode and without PII controls: nothing has to
 *   be verified or scanned;
 * - it is permitted at once, without an idempotency key and without an approval: nothing has to be asked.
 *
 * Any other request is left as it was, with nothing taken or recorded, and takes the general way
 * (`decideRequest`, `recordDecision`), which is the plain version of this one: a property test holds that
 * both give the same answers and the same records. What is saved is what the general way keeps for requests
 * that wait, and most of the record: what it says of the passport, and of the gate and the permission, is the
 * same for many, and stands in the spool once for all of them in a turn.
 */
export class PlainPermits {
  readonly #deps: SectionDeps;
  readonly #chains = new WeakMap<VerifiedPassport, SharedPart>();
  readonly #outcomes = new WeakMap<CompiledGate, Map<PermissionKey | null, KnownOutcome>>();

  constructor(deps: SectionDeps) {
    this.#deps = deps;
  }

  /**
   * Decides, takes and records, in one synchronous section; false: it does not. The spool is not full, and
   * this loop may decide. `momentMs`, and what it throws: as in `decideRequest`.
   */
  permit(
    open: OpenRequest,
    request: RequestFacts,
    passport: VerifiedPassport,
    momentMs: MonotonicMillis,
  ): boolean {
    const { state, clock, leases, random, spool } = this.#deps;
    const gate = open.gateId === null ? null : state.gate(open.gateId);
    if (gate === null || gate.pii !== null || gate.mode !== open.caller.mode) return false;
    const nowMs = clock.now(momentMs);
    authenticateAgain(this.#deps, open, nowMs);
    const standing = state.standing(passport, momentMs);
    const view = leases.view(gate, passport);
    const decision = decide(gate, { kind: 'verified', passport, standing }, request, view, nowMs);
    const { charge } = decision;
    if (charge === null || needsRun(decision, request, false)) return false;

    const attestationId = random.newId('att', nowMs);
    const took = leasesOf(view, charge);
    leases.take(view, charge);
    const { requestHash, permissionKey } = request;
    const record = {
      head: renderRowHead(attestationId, requestHash, decision.amountMicroUsd, nowMs, took),
      chain: this.#chainOf(passport),
      outcome: this.#outcomeOf(gate, permissionKey, decision),
    };
    spool.appendParts(record, open);
    open.permit = new DecisionReply(decision, { attestationId, approval: null, redacted: null, nowMs }, open);
    return true;
  }

  #chainOf(passport: VerifiedPassport): SharedPart {
    let part = this.#chains.get(passport);
    if (part === undefined) {
      const { passportId, tokenHash } = passport;
      part = new SharedPart(
        renderChainPart({ chain_id: passportId, passport_id: passportId, token_hash: tokenHash }),
      );
      this.#chains.set(passport, part);
    }
    return part;
  }

  #outcomeOf(gate: CompiledGate, permissionKey: PermissionKey | null, { evaluated }: Decision): SharedPart {
    let ofGate = this.#outcomes.get(gate);
    if (ofGate === undefined) {
      ofGate = new Map();
      this.#outcomes.set(gate, ofGate);
    }
    const known = ofGate.get(permissionKey);
    // Lists of checks are shared: the same checks are the same list.
    if (known !== undefined && known.evaluated === evaluated) return known.part;
    // An agent that holds `orders:*` makes up as many as it likes.
    if (ofGate.size >= decideLimits.outcomesMax) ofGate.clear();
    const part = new SharedPart(
      renderOutcomePart({
        gate_id: gate.gateId,
        decision: 'PERMIT',
        reason: null,
        permission_key: permissionKey,
        constraints_evaluated: evaluated,
        pii: [],
        caller_mode: gate.mode,
      }),
    );
    ofGate.set(permissionKey, { evaluated, part });
    return part;
  }
}

interface KnownOutcome {
  readonly evaluated: Decision['evaluated'];
  readonly part: SharedPart;
}
