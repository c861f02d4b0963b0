import { type Static, Type } from 'typebox';
import { renderTime, type UnixMillis } from '../../model/time.ts';
import type { TrustTier } from '../../model/trust-tier.ts';
import { GateConstraints } from '../api/constraints.ts';
import { closed, nullable, Tier, Timestamp } from '../api/fields.ts';
import { GateRoutes } from '../api/gate-routes.ts';

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

/** What is hashed of a policy (contract §9). */
export const PolicyBody = closed({
  catalog_hash: nullable(Hash),
  catalog_version: nullable(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  constraints: GateConstraints,
  routes: GateRoutes,
  trust_level: Tier,
});

/** A kept policy with its signature, as exports carry it. */
export const SignedPolicy = closed({
  /** As it was hashed: another version of the service may not know each of its members. */
  body: Type.Record(Type.String(), Type.Unknown()),
  policy_hash: Hash,
  /** base64url of 64 bytes, over `agent-trust.policy.v1:` and the hash. */
  signature: Type.String({ pattern: '^[A-Za-z0-9_-]{86}$' }),
  signing_key_id: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
});
export type SignedPolicy = Static<typeof SignedPolicy>;

/** Keeps the signature of a policy apart from other kinds. */
export const policyMessage = (hash: string): string => `agent-trust.policy.v1:${hash}`;

/** `GET /policies/:hash` */
export const PolicyAnswer = Type.Object({
  body: PolicyBody,
  policy_hash: Hash,
  signature: SignedPolicy.properties.signature,
  signing_key_id: SignedPolicy.properties.signing_key_id,
  first_used_at: Timestamp,
});

/** An item of `GET /gates/:id/policies`. */
export const GatePolicyItem = Type.Object({
  policy_version: Type.Integer({ minimum: 1 }),
  policy_hash: Hash,
  trust_level: Tier,
  since: Timestamp,
});

/** The policy of a version of a gate. */
export interface GatePolicyVersion {
  readonly policyVersion: number;
  readonly policyHash: string;
  readonly trustLevel: TrustTier;
  readonly sinceMs: UnixMillis;
}

export const renderGatePolicy = (each: GatePolicyVersion): Static<typeof GatePolicyItem> => ({
  policy_version: each.policyVersion,
  policy_hash: each.policyHash,
  trust_level: each.trustLevel,
  since: renderTime(each.sinceMs),
});
