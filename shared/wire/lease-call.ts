import { must } from '../errors/assert.ts';
import type { GateId, PassportId, SidecarId } from '../model/ids.ts';
import type { UnixMillis } from '../model/time.ts';
import type { Counter } from '../quota/counter.ts';
import type { WindowName } from '../quota/window.ts';
import type { LimitKind } from '../quota/window-limit.ts';

/**
 * `POST /v1/sync/leases`: how a sidecar draws on the quota ledger (contract §6; ARCHITECTURE.md, "Quotas").
 * Not a public interface.
 *
 * One call carries all the needs and all the returns that a sidecar has gathered. A holder (one process of a
 * sidecar) numbers its calls from 1 and has one under way: the same number sent again is answered with what
 * it was answered before, so that a call whose outcome is unknown is simply sent again. Answers: 200
 * `LeaseAnswer`; 409 `holder_unknown` where the control plane does not know what this holder was given (its
 * database was restored): the holder then drops all its leases, uses nothing of them any more and begins anew
 * under another name.
 */
export interface LeaseCall {
  readonly sidecar_id: SidecarId;
  readonly connection_id: string;
  /** 32 hex characters, random per start of the process and again after `holder_unknown`. */
  readonly holder: string;
  /**
   * Of the spool in which the records of what this holder takes are found: once that epoch is shipped to its
   * end, what none of them took goes back (`EpochEnd`). Absent: what the holder leaves behind stays counted
   * until its windows end.
   */
  readonly epoch?: string;
  /** From 1, without holes. */
  readonly seq: number;
  /** Each window at most once. */
  readonly returns: readonly LeaseReturn[];
  /** Each window at most once. */
  readonly asks: readonly LeaseRequest[];
}

/**
 * Which counter. What a limit of a gate counts `per: passport` names both; a passport's own limit names no
 * gate.
 */
export interface LeaseCounter {
  readonly kind: LimitKind;
  readonly gate_id: GateId | null;
  readonly passport_id: PassportId | null;
  /**
   * Hex SHA-256 of the passport's token where `passport_id` is set: shows that this sidecar has seen the
   * passport.
   */
  readonly token_hash: string | null;
}

/** Only for counters as `parseLeaseCall` lets them through: each kind has the ids that it needs. */
export function counterOfLease({ kind, gate_id: gateId, passport_id: passportId }: LeaseCounter): Counter {
  switch (kind) {
    case 'gate_rate':
    case 'gate_spend':
      return { kind, gateId: must(gateId, 'a counter of a gate names it'), passportId };
    case 'passport_rate':
    case 'passport_spend':
      return { kind, passportId: must(passportId, 'a counter of a passport names it') };
  }
}

/** Units that the holder has not used and will not use. */
export interface LeaseReturn extends LeaseCounter {
  readonly window: WindowName;
  readonly starts_at_ms: UnixMillis;
  readonly units: number;
}

/**
 * The control plane knows the limit itself: a sidecar that is behind cannot lease past it. The current window
 * is meant.
 */
export interface LeaseRequest extends LeaseCounter {
  readonly window: WindowName;
  /**
   * Less than this helps nobody: nothing is granted then. The smallest need of those who wait; 0 where nobody
   * waits.
   */
  readonly units_min: number;
  /** What all who wait need together. */
  readonly units_needed: number;
  /** What will be wanted soon besides. Granted only as far as the window has plenty. */
  readonly units_ahead: number;
}

export interface LeaseAnswer {
  /** In the order of the asks. */
  readonly grants: readonly LeaseGrantBody[];
}

export interface LeaseGrantBody {
  /**
   * The number by which records name this lease (`SpooledRecord.took`): one for each holder and calendar
   * window. Absent where nothing was ever granted.
   */
  readonly lease_id?: number;
  /**
   * 0 where less than `units_min` is left, or where there is no such limit (any more). Below `units_needed`:
   * no more is left.
   */
  readonly granted: number;
  /** The limit in force at the control plane; null: there is none. */
  readonly limit: number | null;
  /** All units given out in the window, those granted here included. */
  readonly leased: number;
  readonly starts_at_ms: UnixMillis;
  readonly ends_at_ms: UnixMillis;
  /**
   * By the grantor's clock, when it answered: a repeat of the call is told it anew. The holder counts it down
   * on its monotonic clock from the moment it sent the attempt that was answered.
   */
  readonly left_ms: number;
}
