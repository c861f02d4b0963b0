import { type Static, Type } from 'typebox';
import { closed } from './fields.ts';

const Hash = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' });

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
