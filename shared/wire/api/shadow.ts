import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import type { Gate, GateShadow } from '../../model/gate.ts';
import { limits } from '../../model/limits.ts';
import { renderTime, secondMs } from '../../model/time.ts';
import { GateConstraints, renderConstraints } from './constraints.ts';
import { closed, FreeForm, nullable, Tier, Timestamp } from './fields.ts';
import { applyGatePatch } from './gate.ts';
import { GateRoutes, renderGateRoutes } from './gate-routes.ts';

/** `PUT /gates/:id/shadow`: a JSON merge patch on the live policy, and how long it is tried. */
export const ShadowPatch = closed({
  trust_level: Type.Optional(nullable(Tier)),
  constraints: Type.Optional(nullable(FreeForm)),
  /** Replaced as a whole; null removes all. */
  routes: Type.Optional(nullable(GateRoutes)),
  expires_in_s: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limits.shadowMsMax / secondMs,
      default: limits.shadowDefaultMs / secondMs,
    }),
  ),
});

/** The whole policy, as it would be with the patch. `routes` only if it has some. */
export const ShadowAnswer = Type.Object({
  gate_id: Type.String(),
  trust_level: Tier,
  constraints: GateConstraints,
  routes: Type.Optional(GateRoutes),
  policy_hash: Type.String(),
  base_policy_hash: Type.String(),
  created_at: Timestamp,
  expires_at: Timestamp,
});

export const ShadowDeletion = Type.Object({ gate_id: Type.String(), deleted: Type.Literal(true) });

/** The policy of a gate with the patch, valid for a gate. Throws `invalid_request` naming the member. */
export function applyShadowPatch(
  { expires_in_s: _, ...patch }: Static<typeof ShadowPatch>,
  live: Gate,
): Pick<Gate, 'trustLevel' | 'constraints' | 'routes'> {
  if (Object.keys(patch).length === 0)
    throw invalidRequest('constraints', 'A shadow needs constraints, trust_level or routes that differ.');
  const { trustLevel, constraints, routes } = applyGatePatch(patch, live);
  return { trustLevel, constraints, routes };
}

export const shadowLifeMs = ({ expires_in_s: seconds }: Static<typeof ShadowPatch>): number =>
  seconds === undefined ? limits.shadowDefaultMs : seconds * secondMs;

export const renderShadow = (gateId: Gate['gateId'], shadow: GateShadow): Static<typeof ShadowAnswer> => ({
  gate_id: gateId,
  trust_level: shadow.trustLevel,
  constraints: renderConstraints(shadow.constraints),
  ...(shadow.routes.length === 0 ? {} : { routes: renderGateRoutes(shadow.routes) }),
  policy_hash: shadow.policyHash,
  base_policy_hash: shadow.basePolicyHash,
  created_at: renderTime(shadow.createdAtMs),
  expires_at: renderTime(shadow.expiresAtMs),
});
