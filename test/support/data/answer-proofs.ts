import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { answerChallenge, type SignedAnswer } from '../../../shared/attestation/answer-proof.ts';
import type { AnswerProof } from '../../../shared/wire/evidence/answer-proof.ts';

export const answered = {
  approval_id: 'appr_01m7w8f9vq2n4k6s8t0w1x3y5z',
  request_hash: `sha256:${'4d'.repeat(32)}`,
  amount_micro_usd: 250_000_000,
  answer: 'approved' as const,
};
export const policy_hash = `sha256:${'cb'.repeat(32)}`;
const origin = 'https://trust.example.com';
export const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();
export const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');

export const kinds = {
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  Ed25519: () => generateKeyPairSync('ed25519'),
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2_048 }),
} as const;

export interface Said {
  readonly challenge?: string;
  readonly type?: string;
  readonly origin?: string;
  readonly crossOrigin?: boolean;
  readonly rpId?: string;
  readonly flags?: number;
}

/** As an authenticator and a browser make it (WebAuthn Level 3). */
export function proofBy(
  kind: keyof typeof kinds,
  said: Said = {},
  about: SignedAnswer = { ...answered, policy_hash },
): AnswerProof {
  const { publicKey, privateKey } = kinds[kind]();
  const clientData = Buffer.from(
    JSON.stringify({
      type: said.type ?? 'webauthn.get',
      challenge: said.challenge ?? answerChallenge(about),
      origin: said.origin ?? origin,
      crossOrigin: said.crossOrigin ?? false,
    }),
  );
  const data = Buffer.concat([
    sha256(said.rpId ?? 'trust.example.com'),
    Buffer.from([said.flags ?? 5, 0, 0, 0, 1]),
  ]);
  const message = Buffer.concat([data, sha256(clientData)]);
  return {
    passkey_id: 'pkey_01m7w8f9wq3n5k7s9t1w2x4y6z',
    credential_id: 'AAAA',
    public_key: publicKey.export({ format: 'jwk' }) as AnswerProof['public_key'],
    policy_hash: about.policy_hash,
    rp_id: 'trust.example.com',
    origin,
    authenticator_data: base64url(data),
    client_data_json: base64url(clientData),
    signature: base64url(sign(kind === 'Ed25519' ? null : 'sha256', message, privateKey)),
  };
}
