import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { limits } from '../../shared/model/limits.ts';
import { type ProofClaimsAnswer, parseProofClaims } from '../../shared/wire/sync/proof-claim.ts';
import { callerOf } from '../http/caller.ts';
import type { DecisionDeps } from './deps.ts';
import { claimProofs } from './used-proof-store.ts';

/**
 * First uses of proofs, for sidecars. Not a public interface. Which sidecar asks is not looked up: it can
 * only use up a proof that it was shown, and a copied claim would have to be guessed.
 */
export function proofRoutes({ sql, clock, slots }: DecisionDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post('/sync/proofs', { config: { scope: 'sidecars:connect' } }, async (request) => {
      const { accountId } = callerOf(request);
      const { sidecar_id: sidecarId, proofs } = parseProofClaims(request.body);
      const uses = proofs.map(({ proof, claim }) => ({ proof, claim: `${accountId} ${sidecarId} ${claim}` }));
      const claimed = () => claimProofs(sql, uses, clock.now());
      const first = await slots(accountId, claimed, limits.quotaWaitMsMax);
      return { first: [...first] } satisfies ProofClaimsAnswer;
    });
  };
}
