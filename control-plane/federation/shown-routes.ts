import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ShownTokens } from '../../shared/wire/shown-tokens.ts';
import { callerOf } from '../http/caller.ts';
import { findFederations } from '../issuers/federation-store.ts';
import type { KeyDeps } from '../issuers/follow-keys.ts';
import { seePassports } from './see-passports.ts';
import { issuersOf, readKeysSoon, verifyOfOthers } from './verify-of-others.ts';

const config = { scope: 'sidecars:connect' } as const;
/** `shownTokensMax` tokens of 8 KiB. */
const bodyBytesMax = 640 * 1024;

/**
 * `POST /v1/sync/tokens`: tokens of other issuers that a sidecar has met for the first time, and issuers of
 * whose keys it lacks one. Each token is verified here again: a sidecar can make no passport up. Those that
 * do not verify are passed over, because keys and settings may have changed since. Not a public interface.
 */
export function shownTokenRoutes(deps: KeyDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/tokens',
      { config, schema: { body: ShownTokens }, bodyLimit: bodyBytesMax },
      async (request) => {
        const { accountId } = callerOf(request);
        const { tokens, unknown_keys: lacking } = request.body;
        const issuers = await issuersOf(deps, accountId);
        const verified = tokens.flatMap(({ token, mode }) => {
          const outcome = verifyOfOthers(deps, token, { issuers, mode });
          return outcome.kind === 'verified' ? [outcome] : [];
        });
        await seePassports(deps, verified);
        const own = await findFederations(deps.sql, lacking);
        for (const issuer of own.values())
          if (issuer.accountId === accountId) readKeysSoon(deps, issuer.issuerId);
        return { seen: verified.length };
      },
    );
  };
}
