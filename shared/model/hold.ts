import type { HoldRule } from './constraints.ts';
import { limits } from './limits.ts';
import type { MicroUsd } from './money.ts';
import type { UnixMillis } from './time.ts';

/** Of a gate without `holds`. */
export const holdDefaults: HoldRule = Object.freeze({
  expiresInMs: limits.holdExpiryMsDefault,
  onExpiry: 'settle',
  overrun: 'refuse',
});

/** Money that a PERMIT has taken and that is settled later (contract §19). */
export interface PermitHold {
  readonly amountMicroUsd: MicroUsd;
  readonly expiresAtMs: UnixMillis;
}

export const holdStatuses = ['open', 'settled', 'released', 'expired'] as const;
export type HoldStatus = (typeof holdStatuses)[number];

/** How the service ended that a PERMIT allowed. */
export const serviceOutcomes = ['served', 'failed'] as const;
export type ServiceOutcome = (typeof serviceOutcomes)[number];
