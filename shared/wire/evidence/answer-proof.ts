import { type Static, Type } from 'typebox';

const Base64url = Type.String({ pattern: '^[A-Za-z0-9_-]+$' });

/** The public half of a passkey as a JWK (RFC 7517): ES256, Ed25519 or RS256. */
export const PasskeyJwk = Type.Union([
  Type.Object({ kty: Type.Literal('EC'), crv: Type.Literal('P-256'), x: Base64url, y: Base64url }),
  Type.Object({ kty: Type.Literal('OKP'), crv: Type.Literal('Ed25519'), x: Base64url }),
  Type.Object({ kty: Type.Literal('RSA'), n: Base64url, e: Base64url }),
]);
export type PasskeyJwk = Static<typeof PasskeyJwk>;

/**
 * What a passkey signed when its person answered an approval (contract §8), with what checks it. Stored and
 * exported in this form.
 */
export const AnswerProof = Type.Object({
  passkey_id: Type.String(),
  credential_id: Base64url,
  /** As it was registered. */
  public_key: PasskeyJwk,
  policy_hash: Type.String(),
  /** The host of the service, and the origin of its pages. */
  rp_id: Type.String(),
  origin: Type.String(),
  /** As the authenticator gave them, base64url (WebAuthn Level 3 §6.1 and §5.8.1). */
  authenticator_data: Base64url,
  client_data_json: Base64url,
  signature: Base64url,
});
export type AnswerProof = Static<typeof AnswerProof>;
