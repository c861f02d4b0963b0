import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyPluginAsync } from 'fastify';
import { renderJwks } from '../../shared/crypto/keyset.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { JwksAnswer } from '../../shared/wire/jwks.ts';
import { KeyRotation, KeyRotationAnswer, renderKeyRotation } from '../../shared/wire/signing-key.ts';
import { historyOf } from '../history/history.ts';
import { callerOf } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { compromiseSigningKey, rotateSigningKey } from './rotate-signing-key.ts';

const cacheControl = `public, max-age=${limits.jwksAgeMsMax / secondMs}`;

/** The public keys of this service, for offline verification of its passports and records (contract §11). */
export function jwksRoutes(deps: SigningDeps): FastifyPluginAsync {
  return async (app) => {
    app.get(
      '/.well-known/jwks.json',
      { config: { scope: null }, schema: { response: { 200: JwksAnswer } } },
      async (_request, reply) => {
        // Keys verify without it, and are in memory while the database is away.
        const generation = await historyOf(deps.sql)
          .generations()
          .then(({ current }) => ({ generation: current }))
          .catch(() => ({}));
        const jwks = { ...generation, ...renderJwks(deps.signingKeys.all()) };
        return reply.header('cache-control', cacheControl).send(jwks);
      },
    );
  };
}

const config = { scope: 'admin:*', operatorOnly: true } as const;

/**
 * The keys with which this service signs, for its operator alone (contract §11). 201: a new key; 200: an
 * earlier call's, see rotateSigningKey.
 */
export function signingKeyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/signing-keys/rotate',
      {
        config,
        schema: { body: KeyRotation, response: { 200: KeyRotationAnswer, 201: KeyRotationAnswer } },
      },
      async (request, reply) => {
        const { purpose, compromised: isCompromised = false, kid = null } = request.body;
        if (kid !== null && !isCompromised)
          throw new ApiError('invalid_request', {
            param: 'kid',
            message:
              'kid names a key that is declared compromised: send compromised: true, or leave kid out.',
          });
        const caller = callerOf(request);
        const rotation =
          kid === null
            ? await rotateSigningKey(deps, caller, { purpose, isCompromised })
            : await compromiseSigningKey(deps, caller, { purpose, kid });
        return reply.code(rotation.isNew ? 201 : 200).send(renderKeyRotation(rotation));
      },
    );
  };
}
