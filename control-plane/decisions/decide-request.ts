import {
  type CompiledGate,
  type CompiledPolicy,
  compileGate,
  noGate,
} from '../../shared/decision/compile-gate.ts';
import type { Decision, PassportFacts, RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { FirstPermit, PendingApproval, RunAnswer } from '../../shared/decision/run.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must, unreachable } from '../../shared/errors/assert.ts';
import type { AttestationId, GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import type { TokenVerdict } from '../../shared/verification/verify-token.ts';
import type { RequestObject } from '../../shared/wire/check.ts';
import type { Transaction } from '../base/database.ts';
import { findGate } from '../gates/gate-store.ts';
import type { Caller } from '../http/caller.ts';
import type { DecisionDeps } from './deps.ts';
import { type DrawnWindows, drawnWindows, noDraws } from './drawn-windows.ts';
import { findStanding } from './passport-standing-store.ts';
import { RunInTransaction } from './run-in-transaction.ts';
import type { SettlementId } from './settlement-store.ts';

export type DecidingDeps = Pick<
  DecisionDeps,
  'sql' | 'clock' | 'random' | 'signingKeys' | 'appending' | 'turns' | 'ownVoids' | 'retryWaits'
>;

export interface EnforcementCall {
  readonly caller: Caller;
  /** Null: `/enforce` for a passport alone. */
  readonly gateId: GateId | null;
  readonly verdict: TokenVerdict;
  /** As its caller wrote it: what is scanned for personal data. */
  readonly asked: RequestObject;
  readonly request: RequestFacts;
  /**
   * A gate test: attested as such, and counted nowhere. It takes and opens nothing, and claims no idempotency
   * key.
   */
  readonly isTest: boolean;
}

/** What a request is decided on, as the database knows it in this transaction. */
export interface CheckInput {
  readonly gate: CompiledGate | null;
  readonly policy: CompiledPolicy;
  readonly facts: PassportFacts;
  /** Null where no passport verified. */
  readonly passport: VerifiedPassport | null;
  /** Scanned where the policy has PII controls. */
  readonly request: RequestFacts;
  readonly drawn: DrawnWindows;
  readonly nowMs: UnixMillis;
}

export type Enforcement =
  | {
      /** The decision, and all that it asked for, is committed. */
      readonly kind: 'decided';
      readonly decision: Decision;
      /** Null for a SUSPEND that is no gate test: it is attested when it is resolved. */
      readonly attestationId: AttestationId | null;
      /** Of a SUSPEND that is no gate test. */
      readonly approval: PendingApproval | null;
      readonly redacted: Redacted | null;
      /** Null where no passport verified. */
      readonly agentId: string | null;
      readonly decidedAtMs: UnixMillis;
    }
  /** The key belongs to an earlier PERMIT of the same request; nothing was taken and nothing recorded. */
  | { readonly kind: 'replayed'; readonly first: FirstPermit; readonly redacted: Redacted | null };

type Redacted = ReturnType<typeof redactRequest>;

/**
 * Decides on the database itself, with no lease between: what the decision takes, its claim, its approval and
 * its record are committed in one transaction, so there is no answer without a record and no record of a
 * decision that was not made (contract §9). The way there is that of every request (shared/decision/run.ts).
 * Where the outcome of the commit is unknown this throws, and the caller of the API gets an error instead of
 * a decision; what was settled is voided as soon as the database answers again, so that no client that got an
 * error has a valid PERMIT.
 *
 * One that meets a limit which others may be using up just now waits for them until `untilMs`, a moment at a
 * time, with neither turn nor connection.
 *
 * Throws `gate_not_found`, `idempotency_conflict` where the key belongs to a PERMIT of another request, and
 * `overloaded`.
 */
export async function decideRequest(
  deps: DecidingDeps,
  call: EnforcementCall,
  untilMs: MonotonicMillis = retryUntilMs(deps),
): Promise<Enforcement> {
  for (let waits = 0; ; waits++) {
    const decided = await tryToDecide(deps, call);
    if (decided !== null) return decided;
    const owner = call.caller.accountId;
    const outcome = await new Promise((resolve) => deps.retryWaits.wait({ owner, waits, untilMs }, resolve));
    if (outcome === 'late') throw new ApiError('overloaded');
  }
}

/** For a request that begins now. */
export const retryUntilMs = ({ clock }: Pick<DecidingDeps, 'clock'>): MonotonicMillis =>
  (clock.monotonic() + limits.quotaWaitMsMax) as MonotonicMillis;

/** As `decideRequest`, without a wait. Null: it has to wait. */
export async function tryToDecide(deps: DecidingDeps, call: EnforcementCall): Promise<Enforcement | null> {
  let unknown: readonly SettlementId[] = [];
  try {
    return await deps.turns(call.caller.accountId, () =>
      deps.sql.begin(async (tx) => {
        const read = () => readInput(tx, deps, call);
        const run = new RunInTransaction(tx, deps, call, { input: await read(), readAgain: read });
        const answer = await run.answer();
        if (answer === null) throw new HasToWait();
        unknown = run.unknownIds;
        return enforcementOf(answer, run, call);
      }),
    );
  } catch (error) {
    if (error instanceof HasToWait) return null;
    // All statements succeeded: whether the commit did is unknown.
    for (const id of unknown) deps.ownVoids.add(id);
    throw error;
  }
}

/** Thrown to roll back; control flow, not a failure. */
class HasToWait extends Error {
  override readonly name = 'HasToWait';
}

async function readInput(tx: Transaction, deps: DecidingDeps, call: EnforcementCall): Promise<CheckInput> {
  const gate = call.gateId === null ? null : await readGate(tx, call.caller, call.gateId);
  const policy = gate ?? noGate(call.caller);
  const facts = await readFacts(tx, call.verdict);
  const passport = facts.kind === 'verified' ? facts.passport : null;
  return {
    gate,
    policy,
    facts,
    passport,
    request:
      policy.pii === null ? call.request : { ...call.request, pii: scanPii(call.asked, policy.pii.types) },
    drawn: passport === null ? noDraws : drawnWindows(policy, gate, passport),
    nowMs: deps.clock.now(),
  };
}

/** A gate that is not the caller's, or of the other mode, is `gate_not_found` (contract §2). */
async function readGate(tx: Transaction, caller: Caller, gateId: GateId): Promise<CompiledGate> {
  const gate = await findGate(tx, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found');
  return compileGate(gate, gate.catalogTerms);
}

async function readFacts(tx: Transaction, verdict: TokenVerdict): Promise<PassportFacts> {
  if (verdict.kind === 'refused') return verdict;
  const known = await findStanding(tx, verdict.passport);
  // A signature that this service did not make: somebody else has the key.
  if (known === null) return { kind: 'refused', reason: 'passport_unknown_key' };
  return { kind: 'verified', passport: verdict.passport, standing: known.standing };
}

function enforcementOf(answer: RunAnswer, run: RunInTransaction, call: EnforcementCall): Enforcement {
  const { policy, passport, nowMs } = run.input;
  const redact = (): Redacted => {
    const { types } = must(policy.pii, 'what is redacted is so at a gate with PII controls');
    return redactRequest(call.asked, types, must(run.request.pii, 'what is redacted was scanned'));
  };
  switch (answer.kind) {
    case 'error':
      // Rolls the transaction back: nothing of the attempt remains.
      throw new ApiError(answer.code);
    case 'replay': {
      const { first } = answer;
      // The gate may have begun to redact since, and then a request is scanned as a whole or not answered.
      const isRedacted =
        policy.pii?.mode === 'redact' && first.pii.length > 0 && run.request.pii?.isComplete === true;
      return { kind: 'replayed', first, redacted: isRedacted ? redact() : null };
    }
    case 'suspended':
    case 'decision':
      return {
        kind: 'decided',
        decision: run.decision,
        attestationId: answer.kind === 'decision' ? run.attestationId : null,
        approval: answer.kind === 'suspended' ? answer.approval : null,
        redacted: run.decision.isRedacted ? redact() : null,
        agentId: passport?.agentId ?? null,
        decidedAtMs: nowMs,
      };
    default:
      return unreachable(answer);
  }
}
