import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ShownTokens } from '../../shared/wire/sync/shown-tokens.ts';
import { callerOf } from '../http/caller.ts';
import { knownFederations } from '../issuers/federation-store.ts';
import type { KeyDeps } from '../issuers/follow-keys.ts';
import { noteShown } from '../issuers/shown-passport-store.ts';
import { seePassports } from './see-passports.ts';
import { knownAmong, readKeysSoon, verifyOfOthers } from './verify-of-others.ts';

const config = { scope: 'sidecars:connect' } as const;
/** `shownTokensMax` tokens of 8 KiB. */
const bodyBytesMax = 640 * 1024;

/**
 * `POST /v1/sync/tokens`: tokens of other issuers that a sidecar has met for the first time, and issuers of
 * whose keys it lacks one. Each token is verified here again: a sidecar can make no passport up. Those that
 * do not verify are passed over, because keys and settings may have changed since. The sidecar has decided
 * which issuer a token is of, by what its gate knows. Not a public interface.
 */
export function shownTokenRoutes(deps: KeyDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/tokens',
      { config, schema: { body: ShownTokens }, bodyLimit: bodyBytesMax },
      async (request) => {
        const { accountId } = callerOf(request);
        const { tokens, unknown_keys: lacking } = request.body;
        const known = await knownFederations(deps.sql, accountId);
        const verified = tokens.flatMap(({ token, mode, issuer_id: issuerId }) => {
          const issuers = knownAmong(known.filter((issuer) => issuer.issuerId === issuerId));
          const outcome = verifyOfOthers(deps, token, { issuers, mode });
          return outcome.kind === 'verified' ? [outcome] : [];
        });
        await seePassports(deps, verified);
        const ofOthers = verified.filter(({ issuer }) => issuer.accountId !== accountId);
        await noteShown(
          deps.sql,
          accountId,
          ofOthers.map(({ passport }) => passport.passportId),
        );
        for (const { issuerId } of known) if (lacking.includes(issuerId)) readKeysSoon(deps, issuerId);
        return { seen: verified.length };
      },
    );
  };
}
