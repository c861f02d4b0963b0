import { dayMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const signingKeysLimits = {
  /**
   * A sidecar goes on issuing receipts for so long while the control plane is away. It is certified anew
   * every hour.
   */
  certificateMs: 7 * dayMs,
  /** A receipt in the making when its sidecar is certified anew has an earlier time. */
  certificateLeewayMs: minuteMs,
  /** Of sidecars, revoked by the operator one by one: 100 bytes each, which verifiers fetch as one list. */
  revokedKeysMax: 10_000,
  /** How old the public list of them may be. */
  revokedKeptMs: 500,
} as const;
