import { Type } from 'typebox';
import type { HoldAsk } from '../../decision/facts.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import type { PermitHold } from '../../model/hold.ts';
import { limits } from '../../model/limits.ts';
import { renderUsd } from '../../model/money.ts';
import { renderTime, secondMs } from '../../model/time.ts';
import { closed, nullable, Timestamp } from './fields.ts';

/** How long a hold lasts, in seconds. */
export const HoldSeconds = Type.Integer({
  minimum: limits.holdExpiryMsMin / secondMs,
  maximum: limits.holdExpiryMsMax / secondMs,
});

/** `request.hold` (contract §19); false is as absent. */
export const HoldAskBody = Type.Union([
  Type.Boolean(),
  closed({ expires_in_s: Type.Optional(nullable(HoldSeconds)) }),
]);

/** In the answer of a held PERMIT. */
export const HoldAnswer = Type.Object({ amount_usd: Type.Number(), expires_at: Timestamp });

/** Throws `invalid_request`, naming the field at fault. `at`: the path of the value in the body. */
export function parseHoldAsk(value: unknown, at: string): HoldAsk {
  if (value === true) return { expiresInMs: null };
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidRequest(at, `${at} must be true, or an object with expires_in_s.`);
  for (const name of Object.keys(value))
    if (name !== 'expires_in_s') throw invalidRequest(`${at}.${name}`, `${at}.${name} is not a field.`);
  const { expires_in_s: seconds = null } = value as { readonly expires_in_s?: unknown };
  return { expiresInMs: seconds === null ? null : readSeconds(seconds, `${at}.expires_in_s`) };
}

function readSeconds(value: unknown, at: string): number {
  const min = limits.holdExpiryMsMin / secondMs;
  const max = limits.holdExpiryMsMax / secondMs;
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max)
    return value * secondMs;
  throw invalidRequest(at, `${at} must be a whole number of seconds from ${min} to ${max}.`);
}

export const renderHold = ({ amountMicroUsd, expiresAtMs }: PermitHold): HoldAnswer => ({
  amount_usd: renderUsd(amountMicroUsd),
  expires_at: renderTime(expiresAtMs),
});

/** The JSON text of it. */
export const holdJson = ({ amountMicroUsd, expiresAtMs }: PermitHold): string =>
  `{"amount_usd":${renderUsd(amountMicroUsd)},"expires_at":"${renderTime(expiresAtMs)}"}`;

export type HoldAnswer = { readonly amount_usd: number; readonly expires_at: string };
