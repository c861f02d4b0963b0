/**
 * Room `control-plane/decisions`: decisions of the control plane, and settlements. Its own checks are
 * decided in batches (`check-queue.ts`, `decide-together.ts`, `check-run.ts`); `settle-batch.ts` serves
 * sidecars; both settle by `settle-permits.ts`, `settle-suspends.ts` and `look-up.ts`, and
 * `void-settlements.ts` takes settlements back.
 */

import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, InvariantError, must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { isDeadlock, isLockTimeout } from '../storage/database-away.ts';
import type { Queued } from './check-queue.ts';
import type { CheckRun } from './check-run.ts';
import { type CheckOutcome, decideTogether } from './decide-together.ts';
import type { DecidingDeps } from './deps.ts';
import type { Enforcement, EnforcementCall, Redacted } from './enforcement.ts';
import { decisionsLimits } from './limits.ts';
import { prove } from './prove.ts';
import { isOfAll } from './settle-batch.ts';

/**
 * Decides on the database, without leases. The units, the key claim, the approval and the record are
 * committed in one transaction, so no answer lacks a record and no record lacks a decision (contract §9).
 * Concurrent requests of the account share the transaction (check-queue.ts). The steps are those of every
 * request (shared/decision/run.ts). If the outcome of the commit is unknown this throws: the client gets an
 * error, and the settlement is voided as soon as the database answers again, so no client that got an error
 * has a valid PERMIT.
 *
 * A request that misses a limit held by requests in flight waits for them until `untilMs`, polling, without a
 * slot or connection.
 *
 * Throws `gate_not_found`, `idempotency_conflict` if the key belongs to a PERMIT of another request, and
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

/** The deadline of a request that starts now. */
export const retryUntilMs = ({ clock }: Pick<DecidingDeps, 'clock'>): MonotonicMillis =>
  (clock.monotonic() + limits.quotaWaitMsMax) as MonotonicMillis;

/**
 * Like `decideRequest`, but returns null instead of waiting. A proof is looked at once it decides: by then
 * the passport and the gate's demand are known.
 */
export async function tryToDecide(deps: DecidingDeps, call: EnforcementCall): Promise<Enforcement | null> {
  const outcome = await decideInTurn(deps, call);
  if (outcome !== 'prove') return outcome;
  const decided = await decideInTurn(deps, await prove(deps, call));
  assert(decided !== 'prove', 'a proof that was looked at decides');
  return decided;
}

const decideInTurn = (deps: DecidingDeps, call: EnforcementCall): Promise<Enforcement | 'prove' | null> =>
  deps.checks.join(call.caller.accountId, call, (batch) => decideBatch(deps, batch), call.arrivedAtMs);

type QueuedCheck = Queued<EnforcementCall, Enforcement | 'prove' | null>;

/**
 * Uses as few transactions as possible. If a transaction fails because of one request, it is retried in
 * halves, so that the others succeed. Returns the requests that must run alone, because one of them needs a
 * lock that is held for long, or has too much text to be scanned with the others.
 */
async function decideBatch(
  deps: DecidingDeps,
  batch: readonly QueuedCheck[],
): Promise<readonly QueuedCheck[]> {
  let left = batch;
  const alone: QueuedCheck[] = [];
  for (let tries = 1; left.length > 0; tries++) {
    const isLastTry = tries >= decisionsLimits.enforcementTriesMax;
    let outcomes: readonly CheckOutcome[];
    try {
      outcomes = await decideTogether(
        deps,
        left.map(({ call }) => call),
      );
    } catch (error) {
      if (isDeadlock(error) && !isLastTry) continue;
      if (isLockTimeout(error) && mayWaitOn(deps, left)) continue;
      if (left.length > 1 && isLockTimeout(error)) return [...left, ...alone];
      if (left.length > 1 && !isOfAll(error)) return [...(await decideHalves(deps, left)), ...alone];
      for (const { reject } of left) reject(error);
      return alone;
    }
    left = left.filter((queued, place) => {
      const outcome = must(outcomes[place], 'each call has an outcome');
      if (outcome.kind === 'again' && !isLastTry) return true;
      if (outcome.kind === 'alone') {
        alone.push(queued);
        return false;
      }
      answer(queued, outcome);
      return false;
    });
  }
  return alone;
}

/** A request alone whose time is not over. */
const mayWaitOn = (
  { clock }: Pick<DecidingDeps, 'clock'>,
  [first, ...others]: readonly QueuedCheck[],
): boolean =>
  first !== undefined && others.length === 0 && clock.monotonic() - first.sinceMs < limits.quotaWaitMsMax;

async function decideHalves(
  deps: DecidingDeps,
  batch: readonly QueuedCheck[],
): Promise<readonly QueuedCheck[]> {
  const half = Math.ceil(batch.length / 2);
  const first = await decideBatch(deps, batch.slice(0, half));
  return [...first, ...(await decideBatch(deps, batch.slice(half)))];
}

function answer({ call, resolve, reject }: QueuedCheck, outcome: CheckOutcome): void {
  if (outcome.kind === 'failed') {
    reject(outcome.error);
    return;
  }
  try {
    resolve(
      outcome.kind === 'run' ? enforcementOf(outcome.run, call) : outcome.kind === 'prove' ? 'prove' : null,
    );
  } catch (error) {
    reject(error);
  }
}

function enforcementOf(run: CheckRun, call: EnforcementCall): Enforcement {
  const { policy, passport, nowMs } = run.input;
  const answered = must(run.answer, 'a run that has ended has an answer');
  const redact = (): Redacted => {
    const { types } = must(policy.pii, 'what is redacted is so at a gate with PII controls');
    return redactRequest(call.asked, types, must(run.request.pii, 'what is redacted was scanned'));
  };
  if (answered.kind === 'error') throw new InvariantError('an error is no decision');
  if (answered.kind === 'replay') {
    const { first } = answered;
    // The gate may have turned on redaction since. Then a request is scanned in full, or not answered.
    const isRedacted =
      policy.pii?.mode === 'redact' && first.pii.length > 0 && run.request.pii?.isComplete === true;
    return { kind: 'replayed', first, redacted: isRedacted ? redact() : null };
  }
  const { decision } = run;
  return {
    kind: 'decided',
    decision,
    attestationId: answered.kind === 'decision' ? run.attestationId : null,
    approval: answered.kind === 'suspended' ? answered.approval : null,
    redacted: decision.isRedacted ? redact() : null,
    agentId: passport?.agentId ?? null,
    decidedAtMs: nowMs,
  };
}
