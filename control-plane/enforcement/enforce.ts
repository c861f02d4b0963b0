import { setTimeout as pause } from 'node:timers/promises';
import type { Charge, Decision } from '../../shared/decision/facts.ts';
import { mayBeReplay } from '../../shared/decision/may-be-replay.ts';
import { pendingExceeded } from '../../shared/decision/pending-exceeded.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { permissionOnRecord } from '../../shared/pii/permission-on-record.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import type { FirstPermit } from '../../shared/wire/settlement.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { appendRecords } from '../attestations/append-records.ts';
import type { Deps, Transaction } from '../deps.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { grantLeases } from '../leases/grant-leases.ts';
import { askFor, holdsFor } from './drawn-windows.ts';
import {
  bindingOf,
  type EnforcementCall,
  type Judgement,
  judgeRequest,
  type Waiting,
} from './judge-request.ts';
import { newRecord } from './new-record.ts';
import { awaitKey, type ClaimedPermit, claimKey, findClaim, type PermitKey } from './permit-claims.ts';

type EnforcementDeps = Pick<Deps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'appending' | 'turns'>;

export type Enforcement =
  | {
      /** The decision, and all that it asked for, is committed. */
      readonly kind: 'decided';
      readonly decision: Decision;
      /** Null for a SUSPEND that is no gate test: it is attested when it is resolved. */
      readonly attestationId: AttestationId | null;
      /** Of a SUSPEND that is no gate test. */
      readonly approval: Waiting | null;
      readonly redacted: Redacted | null;
      /** Null where no passport verified. */
      readonly agentId: string | null;
      readonly decidedAtMs: UnixMillis;
    }
  /** The key belongs to an earlier PERMIT of the same request; nothing was taken and nothing recorded. */
  | { readonly kind: 'replayed'; readonly first: FirstPermit; readonly redacted: Redacted | null };

type Redacted = ReturnType<typeof redactRequest>;

/** Others were quicker: what the decision stands on is not there any more. Undoes its transaction. */
class Overtaken extends Error {
  override readonly name = 'Overtaken';
}

/** A limit refuses a request with a key, and a sidecar that leased its last unit may be about to claim that key. Undoes its transaction. */
class PerhapsCopied extends Error {
  override readonly name = 'PerhapsCopied';
}

/**
 * Decides on the database itself, with no lease between: what the decision takes, its claim, its approval and its record are committed in one
 * transaction, so there is no answer without a record and no record of a decision that was not made (decisions §9). A decision that others were quicker
 * than is undone and made anew. Where the outcome of the commit is unknown this throws, and the caller of the API gets an error instead of a decision;
 * asking again makes a new one, which with an idempotency key is charged once.
 *
 * Throws `gate_not_found`, and `idempotency_conflict` where the key belongs to a PERMIT of another request.
 */
export async function enforce(deps: EnforcementDeps, call: EnforcementCall): Promise<Enforcement> {
  let isCopyAwaited = false;
  for (let count = 1; ; count++) {
    try {
      const options = { asksNobody: count >= limits.enforcementTriesMax, isCopyAwaited };
      return await deps.turns(call.caller.accountId, () =>
        deps.sql.begin((tx) => enforceOnce(tx, deps, call, options)),
      );
    } catch (error) {
      if (error instanceof PerhapsCopied) {
        await pause(limits.copyPauseMs);
        isCopyAwaited = true;
      } else if (!(error instanceof Overtaken)) throw error;
    }
  }
}

/** Rows are locked in the order that approval-store.ts names: quota windows last. */
async function enforceOnce(
  tx: Transaction,
  deps: EnforcementDeps,
  call: EnforcementCall,
  options: { readonly asksNobody: boolean; readonly isCopyAwaited: boolean },
): Promise<Enforcement> {
  const judged = await judgeRequest(tx, deps, call, options);
  if (call.isTest) return attest(tx, deps, call, judged);
  const key = keyOf(call, judged);
  if (key !== null && mayBeReplay(judged.decision)) {
    if (options.isCopyAwaited) await awaitKey(tx, key);
    const earlier = await findClaim(tx, key, judged.nowMs);
    if (earlier !== null) return replay(earlier, call, judged);
    const { limitMiss } = judged.decision;
    if (limitMiss !== null && limitMiss.resetAtMs !== null && !options.isCopyAwaited)
      throw new PerhapsCopied();
  }
  switch (judged.decision.outcome) {
    case 'BLOCK':
      return attest(tx, deps, call, judged);
    case 'SUSPEND':
      return suspend(tx, deps, call, judged);
    case 'PERMIT':
      return permit(tx, deps, call, { judged, key });
  }
}

async function permit(
  tx: Transaction,
  deps: EnforcementDeps,
  call: EnforcementCall,
  { judged, key }: { readonly judged: Judgement; readonly key: PermitKey | null },
): Promise<Enforcement> {
  const { request, nowMs } = judged;
  const attestationId = deps.random.newId('att', nowMs);
  const record = newRecord(call, judged, attestationId);
  const earlier = key === null ? null : await claimKey(tx, key, record.record, nowMs);
  if (earlier !== null) return replay(earlier, call, judged);
  if (request.approvalId !== null) {
    const binding = must(bindingOf(judged), 'an approval that lets a request pass is bound to it');
    const used = await consumeApproval(tx, request.approvalId, binding, attestationId, nowMs);
    if (used !== 'consumed') throw new Overtaken();
  }
  await appendRecords(tx, deps, [record]);
  await take(tx, judged);
  return decided(call, judged, { attestationId, approval: null });
}

async function suspend(
  tx: Transaction,
  deps: EnforcementDeps,
  call: EnforcementCall,
  judged: Judgement,
): Promise<Enforcement> {
  const { decision, gate, policy, passport, request, waiting, nowMs } = judged;
  if (waiting !== null) return decided(call, judged, { attestationId: null, approval: waiting });
  if (!(await holdPolicy(tx, must(gate, 'a SUSPEND is at a gate')))) throw new Overtaken();
  const opened = await openApproval(tx, deps, {
    approvalId: deps.random.newId('appr', nowMs),
    passport: must(passport, 'a SUSPEND is about a passport'),
    gate: must(gate, 'a SUSPEND is at a gate'),
    requestHash: request.requestHash,
    permissionKey: permissionOnRecord(request.permissionKey, policy.pii),
    amountMicroUsd: decision.amountMicroUsd,
    constraintsEvaluated: decision.evaluated,
    pii: decision.pii,
    expiresInMs: must(decision.approvalExpiresInMs, 'a SUSPEND that waits for nothing yet opens an approval'),
    holds: holdsFor(judged.drawn, chargeOf(decision), nowMs),
    nowMs,
  });
  if (opened === null) return attest(tx, deps, call, { ...judged, decision: pendingExceeded(decision) });
  if (opened.isNew) await take(tx, judged);
  return decided(call, judged, { attestationId: null, approval: opened });
}

/** A BLOCK, or any decision of a gate test: the record is all there is. */
async function attest(
  tx: Transaction,
  deps: EnforcementDeps,
  call: EnforcementCall,
  judged: Judgement,
): Promise<Enforcement> {
  const attestationId = deps.random.newId('att', judged.nowMs);
  await appendRecords(tx, deps, [newRecord(call, judged, attestationId)]);
  return decided(call, judged, { attestationId, approval: null });
}

const chargeOf = ({ charge }: Decision): Charge => must(charge, 'what is not blocked says what it takes');

/** Takes the units from the ledger, and locks their windows until the commit: the last statement. */
async function take(tx: Transaction, { decision, drawn, nowMs }: Judgement): Promise<void> {
  const [grant] = await grantLeases(tx, [askFor(drawn, chargeOf(decision))], nowMs);
  if (!must(grant, 'an ask is answered').isGranted) throw new Overtaken();
}

/** A key is scoped to a verified passport: without one it means nothing. */
const keyOf = ({ caller }: EnforcementCall, { request, passport, gate }: Judgement): PermitKey | null =>
  request.idempotencyKey === null || passport === null
    ? null
    : {
        passportId: passport.passportId,
        scopeId: gate?.gateId ?? caller.accountId,
        idempotencyKey: request.idempotencyKey,
      };

function decided(
  call: EnforcementCall,
  judged: Judgement,
  made: Pick<Extract<Enforcement, { kind: 'decided' }>, 'attestationId' | 'approval'>,
): Enforcement {
  const { decision, passport, nowMs } = judged;
  return {
    kind: 'decided',
    decision,
    ...made,
    redacted: decision.isRedacted ? redact(call, judged) : null,
    agentId: passport?.agentId ?? null,
    decidedAtMs: nowMs,
  };
}

function replay(earlier: ClaimedPermit, call: EnforcementCall, judged: Judgement): Enforcement {
  const { policy, request } = judged;
  if (earlier.requestHash !== request.requestHash) throw new ApiError('idempotency_conflict');
  // The gate may have begun to redact since, and then a request is scanned as a whole or not answered.
  const isRedacted =
    policy.pii?.mode === 'redact' && earlier.pii.length > 0 && request.pii?.isComplete === true;
  return {
    kind: 'replayed',
    first: {
      attestation_id: earlier.attestationId,
      constraints_evaluated: earlier.constraintsEvaluated,
      pii: earlier.pii,
    },
    redacted: isRedacted ? redact(call, judged) : null,
  };
}

function redact({ asked }: EnforcementCall, { policy, request }: Judgement): Redacted {
  const { types } = must(policy.pii, 'what is redacted is so at a gate with PII controls');
  return redactRequest(asked, types, must(request.pii, 'what is redacted was scanned'));
}
