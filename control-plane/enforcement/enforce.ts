import { type CompiledGate, compileGate, noGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  type Decision,
  noWindows,
  type PassportFacts,
  type RequestFacts,
} from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { AttestationId, GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TokenVerdict } from '../../shared/verification/verify-token.ts';
import { appendRecords, type NewRecord } from '../attestations/append-records.ts';
import type { Deps, Transaction } from '../deps.ts';
import { findGate } from '../gates/gate-store.ts';
import type { Caller } from '../http/auth.ts';
import { findStanding } from './standing-store.ts';

export interface EnforcementCall {
  readonly caller: Caller;
  /** Null: `/enforce` for a passport alone. */
  readonly gateId: GateId | null;
  readonly verdict: TokenVerdict;
  readonly request: RequestFacts;
  /** A gate test: attested as such, and counted nowhere. */
  readonly isTest: boolean;
}

/** A decision whose record is committed. */
export interface Enforcement {
  readonly decision: Decision;
  readonly attestationId: AttestationId;
  /** Null where no passport verified. */
  readonly agentId: string | null;
  readonly decidedAtMs: UnixMillis;
}

/**
 * Decides with what the database knows now, and puts the record into its chain in the same transaction: there is no answer without a
 * record, and no record of a decision that was not made (decisions §9). Where the outcome of the commit is unknown this throws, and the
 * caller of the API gets an error instead of a decision; asking again makes a new one.
 *
 * A gate that is not the caller's, or of the other mode, is `gate_not_found` (decisions §2).
 */
export async function enforce(
  deps: Pick<Deps, 'sql' | 'clock' | 'random' | 'signingKeys' | 'appending'>,
  call: EnforcementCall,
): Promise<Enforcement> {
  const { caller, verdict, request } = call;
  return deps.sql.begin(async (tx) => {
    const gate = call.gateId === null ? null : await readGate(tx, caller, call.gateId);
    const facts = await readFacts(tx, verdict);
    const decidedAtMs = deps.clock.now();
    const decision = decide(gate ?? noGate(caller.mode), facts, request, noWindows, decidedAtMs);
    assert(decision.outcome !== 'SUSPEND', 'no gate can ask for an approval yet');

    const attestationId = deps.random.newId('att', decidedAtMs);
    await appendRecords(tx, deps, [recordOf(call, { gate, facts, decision, attestationId, decidedAtMs })]);
    const agentId = facts.kind === 'verified' ? facts.passport.agentId : null;
    return { decision, attestationId, agentId, decidedAtMs };
  });
}

async function readGate(tx: Transaction, caller: Caller, gateId: GateId): Promise<CompiledGate> {
  const gate = await findGate(tx, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found');
  return compileGate(gate, gate.catalogPrices);
}

async function readFacts(tx: Transaction, verdict: TokenVerdict): Promise<PassportFacts> {
  if (verdict.kind === 'refused') return verdict;
  const standing = await findStanding(tx, verdict.passport);
  // A signature that nobody here made: the key is no longer ours alone, whatever it signs.
  if (standing === null) return { kind: 'refused', reason: 'passport_unknown_key' };
  return { kind: 'verified', passport: verdict.passport, standing };
}

/**
 * The record goes into the chain of the verified passport; without one into the gate's, and without a gate into the account's of who
 * asked, so that nobody can write into the chain of a passport that he does not hold (decisions §9).
 */
function recordOf(
  { caller, request, isTest }: EnforcementCall,
  made: {
    readonly gate: CompiledGate | null;
    readonly facts: PassportFacts;
    readonly decision: Decision;
    readonly attestationId: AttestationId;
    readonly decidedAtMs: UnixMillis;
  },
): NewRecord {
  const { gate, decision } = made;
  const passport = made.facts.kind === 'verified' ? made.facts.passport : null;
  return {
    record: {
      id: made.attestationId,
      chainId: passport?.passportId ?? gate?.gateId ?? caller.accountId,
      passportId: passport?.passportId ?? null,
      gateId: gate?.gateId ?? null,
      decision: decision.outcome,
      reason: decision.reason,
      requestHash: request.requestHash,
      permissionKey: request.permissionKey,
      amountMicroUsd: decision.amountMicroUsd,
      constraintsEvaluated: decision.evaluated,
      pii: [],
      test: isTest,
      resolution: null,
      source: 'control-plane',
      timestampMs: made.decidedAtMs,
    },
    passportOwner: passport === null ? null : { accountId: passport.accountId, mode: passport.mode },
    gateOwner: { accountId: caller.accountId, mode: caller.mode },
  };
}
