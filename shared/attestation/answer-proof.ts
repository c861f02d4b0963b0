import { decodeBase64url, encodeBase64url } from '../crypto/base64url.ts';
import { canonicalJson } from '../crypto/canonical-json.ts';
import { sha256Bytes } from '../crypto/content-hash.ts';
import { readJsonObject } from '../crypto/json-object.ts';
import { isSignedByPasskey } from '../crypto/passkey-signature.ts';
import type { AnswerProof } from '../wire/evidence/answer-proof.ts';

/** What a person answers to, as it is signed (contract §8). */
export interface SignedAnswer {
  readonly approval_id: string;
  readonly request_hash: string;
  readonly policy_hash: string;
  /** Null: the request has no amount. */
  readonly amount_micro_usd: number | null;
  readonly answer: 'approved' | 'denied';
}

/** The challenge that a passkey signs: SHA-256 of the RFC 8785 form, base64url. */
export const answerChallenge = (signed: SignedAnswer): string => {
  const { approval_id, request_hash, policy_hash, amount_micro_usd, answer } = signed;
  return encodeBase64url(
    sha256Bytes(canonicalJson({ approval_id, request_hash, policy_hash, amount_micro_usd, answer })),
  );
};

/** The flags of an authenticator (WebAuthn Level 3 §6.1): a person was there, and unlocked it. */
const present = 1;
const verified = 4;
const flagsAt = 32;
/** Hash of the host, flags, counter. */
const authenticatorBytesMin = 37;

/**
 * Checks, from the stored proof alone, that this passkey signed this answer, unlocked by its person, on a
 * page of this service. Returns what is wrong, or null. Whether the passkey was that person's is in the audit
 * chain (`addPasskey`).
 */
export function findProofFault(
  answered: Omit<SignedAnswer, 'policy_hash'>,
  proof: AnswerProof,
): string | null {
  const authenticatorData = decodeBase64url(proof.authenticator_data);
  const clientData = decodeBase64url(proof.client_data_json);
  const signature = decodeBase64url(proof.signature);
  if (authenticatorData === null || clientData === null || signature === null) return 'it is not base64url';
  const said = readJsonObject(clientData);
  if (said === null) return 'client_data_json is not JSON';
  if (said['type'] !== 'webauthn.get') return 'it is not a signature of a login or an answer';
  if (said['challenge'] !== answerChallenge({ ...answered, policy_hash: proof.policy_hash }))
    return 'it signs another approval, request, policy, amount or answer';
  if (said['origin'] !== proof.origin || said['crossOrigin'] === true) return 'it was made on another page';
  if (authenticatorData.length < authenticatorBytesMin) return 'authenticator_data is too short';
  if (encodeBase64url(authenticatorData.subarray(0, flagsAt)) !== encodeBase64url(sha256Bytes(proof.rp_id)))
    return 'it is for another service';
  const flags = authenticatorData[flagsAt] ?? 0;
  if ((flags & present) === 0 || (flags & verified) === 0) return 'no person unlocked the passkey';
  const message = new Uint8Array([...authenticatorData, ...sha256Bytes(clientData)]);
  return isSignedByPasskey(proof.public_key, message, signature)
    ? null
    : 'the signature is not of this passkey';
}
