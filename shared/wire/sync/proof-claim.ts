import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { IdDigest } from '../../model/id-digest.ts';
import { limits } from '../../model/limits.ts';
import { closed } from '../api/fields.ts';
import { shapeReader, type Wire } from '../api/shape.ts';
import { IdOf } from './sync-schema.ts';

/**
 * `POST /v1/sync/proofs`: a sidecar asks whether it is the first of all to be shown these proofs (contract
 * §5, `replay: exact`). Internal. A control plane of 0.2.0 answers 404, and the sidecar blocks.
 */
const ProofClaims = closed({
  sidecar_id: IdOf('side'),
  connection_id: Type.String({ maxLength: 128 }),
  proofs: Type.Array(
    closed({
      /** The first 16 bytes of SHA-256 of its name, base64url: neither key nor nonce can be read from it. */
      proof: Type.Unsafe<IdDigest>(Type.String({ pattern: '^[\\w-]{21}[AQgw]$' })),
      /** Random, of the request: the same again is the same request asking again. */
      claim: Type.String({ pattern: '^[\\w-]{22}$' }),
    }),
    { minItems: 1, maxItems: limits.proofClaimsPerCallMax },
  ),
});
export type ProofClaims = Wire<typeof ProofClaims>;
export type ProofClaim = ProofClaims['proofs'][number];

/** Throws `invalid_request`. */
export const parseProofClaims = shapeReader(ProofClaims);

/** In the order of the claims: whether each is the first use of its proof. */
const ProofClaimsAnswer = Type.Object({ first: Type.Array(Type.Boolean()) });
export type ProofClaimsAnswer = Static<typeof ProofClaimsAnswer>;
const answerShape = Compile(ProofClaimsAnswer);

/** Null: it is none, or not about so many. */
export function parseProofClaimsAnswer(text: string, count: number): readonly boolean[] | null {
  try {
    const answer: unknown = JSON.parse(text);
    return answerShape.Check(answer) && answer.first.length === count ? answer.first : null;
  } catch {
    return null;
  }
}
