import type { CompiledGate, CompiledPolicy } from '../../shared/decision/compile-gate.ts';
import type { Decision, PassportFacts, RequestFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { FirstPermit, PendingApproval } from '../../shared/decision/run.ts';
import type { AttestationId, GateId } from '../../shared/model/ids.ts';
import type { PiiScan } from '../../shared/model/pii.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { redactRequest } from '../../shared/pii/redact-request.ts';
import type { TokenVerdict } from '../../shared/verification/verify-token.ts';
import type { RequestObject } from '../../shared/wire/api/check.ts';
import type { Caller } from '../http/caller.ts';
import type { DrawnWindows } from './drawn-windows.ts';

export interface EnforcementCall {
  readonly caller: Caller;
  /** Null: `/enforce` for a passport alone. */
  readonly gateId: GateId | null;
  /** A bearer credential: never logged. Empty for a named subject. */
  readonly token: string;
  readonly verdict: TokenVerdict | NamedSubject;
  /** The request as the caller wrote it, to be scanned for personal data. */
  readonly asked: RequestObject;
  readonly request: RequestFacts;
  /**
   * A gate test: attested as such and counted nowhere. It takes no units, opens no approval and claims no
   * idempotency key.
   */
  readonly isTest: boolean;
  /** Its deadline counts from here. Absent: from when it is decided. */
  readonly arrivedAtMs?: MonotonicMillis;
}

/**
 * A passport of the caller's account that the caller names instead of presenting its token (contract §16). It
 * counts as L1, whatever its tier: nothing shows that its agent is here.
 */
export interface NamedSubject {
  readonly kind: 'named';
  /** An agent_id or a passport_id. */
  readonly subjectId: string;
}

export type Enforcement =
  | {
      /** The decision and its effects are committed. */
      readonly kind: 'decided';
      readonly decision: Decision;
      /** Null for a SUSPEND (except in a gate test), which is attested when resolved. */
      readonly attestationId: AttestationId | null;
      /** Set for a SUSPEND, except in a gate test. */
      readonly approval: PendingApproval | null;
      readonly redacted: Redacted | null;
      /** Null where no passport verified. */
      readonly agentId: string | null;
      readonly decidedAtMs: UnixMillis;
    }
  /** The key belongs to an earlier PERMIT of the same request; nothing was taken and nothing recorded. */
  | { readonly kind: 'replayed'; readonly first: FirstPermit; readonly redacted: Redacted | null };

export type Redacted = ReturnType<typeof redactRequest>;

/** What a request is decided on, as the database knows it in this transaction. */
export interface CheckInput {
  readonly gate: CompiledGate | null;
  readonly policy: CompiledPolicy;
  readonly facts: PassportFacts;
  /** Null where no passport verified. */
  readonly passport: VerifiedPassport | null;
  /** Scanned where the policy has PII controls. */
  readonly request: RequestFacts;
  /** What the gate's shadow has to be scanned for, where that is not what the policy has; null: nothing. */
  readonly shadowPii: PiiScan | 'unscanned' | null;
  readonly drawn: DrawnWindows;
  readonly nowMs: UnixMillis;
}
