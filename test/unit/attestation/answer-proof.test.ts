import { describe, expect, it } from 'vitest';
import { verifyAnswer } from '../../../clients/node/src/verify/answer.ts';
import { answerChallenge, findProofFault } from '../../../shared/attestation/answer-proof.ts';
import { signatureMark } from '../../../shared/crypto/passkey-signature.ts';
import type { AnswerProof } from '../../../shared/wire/evidence/answer-proof.ts';
import {
  answered,
  base64url,
  kinds,
  policy_hash,
  proofBy,
  type Said,
  sha256,
} from '../../support/data/answer-proofs.ts';

/** What both verifiers say: null, or a fault in the words of the service. */
async function faultOf(approval: Parameters<typeof findProofFault>[0], proof: AnswerProof) {
  const fault = findProofFault(approval, proof);
  const ofClient = await verifyAnswer(approval, { answer: approval.answer, assertion: proof });
  expect(ofClient.valid, JSON.stringify(ofClient)).toBe(fault === null);
  return fault;
}

describe('the proof of an answer', () => {
  it.each(Object.keys(kinds) as (keyof typeof kinds)[])('by a key for %s convinces', async (kind) => {
    const proof = proofBy(kind);
    expect(await faultOf(answered, proof)).toBeNull();
    const other = proofBy(kind);
    expect(await faultOf(answered, { ...proof, signature: other.signature })).toContain('the signature');
    expect(await faultOf(answered, { ...proof, public_key: other.public_key })).toContain('the signature');
  });

  it('has the challenge of the contract', () => {
    const text = `{"amount_micro_usd":250000000,"answer":"approved","approval_id":"${answered.approval_id}","policy_hash":"${policy_hash}","request_hash":"${answered.request_hash}"}`;
    expect(answerChallenge({ ...answered, policy_hash })).toBe(base64url(sha256(text)));
    const without = text.replace('250000000', 'null');
    expect(answerChallenge({ ...answered, policy_hash, amount_micro_usd: null })).toBe(
      base64url(sha256(without)),
    );
  });

  it.each<[string, Said]>([
    ['signature of a login', { type: 'webauthn.create' }],
    ['another approval', { challenge: 'AAAA' }],
    ['another page', { origin: 'https://evil.example.com' }],
    ['another page', { crossOrigin: true }],
    ['another service', { rpId: 'evil.example.com' }],
    ['no person', { flags: 1 }],
    ['no person', { flags: 4 }],
  ])('says what is wrong: %s', async (fault, said) => {
    expect(await faultOf(answered, proofBy('ES256', said))).toContain(fault);
  });

  it('of anything else, or of something that is none, convinces nobody and throws nothing', async () => {
    const proof = proofBy('ES256');
    for (const other of [
      { ...answered, answer: 'denied' as const },
      { ...answered, amount_micro_usd: null },
      { ...answered, approval_id: 'appr_01m7w8f9vq2n4k6s8t0w1x3y60' },
    ])
      expect(await faultOf(other, proof)).toContain('it signs another');
    expect(await faultOf(answered, { ...proof, policy_hash: `sha256:${'0'.repeat(64)}` })).not.toBeNull();
    for (const bad of ['', '!', 'AA', 'AAAA'.repeat(100)])
      for (const part of ['authenticator_data', 'client_data_json', 'signature'] as const)
        expect(await faultOf(answered, { ...proof, [part]: bad }), `${part} ${bad}`).not.toBeNull();
    for (const public_key of [
      { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA' },
      { kty: 'OKP', crv: 'Ed25519', x: 'AA' },
      { kty: 'RSA', n: 'AA', e: 'AA' },
    ] as const)
      expect(await faultOf(answered, { ...proof, public_key })).toContain('the signature');
  });
});

describe('the mark of a signature', () => {
  it('is r of ES256, and all of the others', () => {
    const der = Buffer.from('30060201070201ff', 'hex');
    const mirrored = Buffer.from('30060201070201aa', 'hex');
    expect(signatureMark({ kty: 'EC' }, base64url(der))).toBe(
      signatureMark({ kty: 'EC' }, base64url(mirrored)),
    );
    expect(signatureMark({ kty: 'OKP' }, 'AAAA')).toBe('AAAA');
    expect(signatureMark({ kty: 'EC' }, 'AA')).toBe('AA');
  });
});
