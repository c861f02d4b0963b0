import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyPluginAsync } from 'fastify';
import { renderJwks } from '../../shared/crypto/keyset.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import {
  RevokedSidecarKeys,
  SidecarKeyCall,
  SidecarKeyRevocation,
  SidecarKeyRevoked,
} from '../../shared/wire/decision-receipt.ts';
import { JwksAnswer } from '../../shared/wire/jwks.ts';
import { KeyRotation, KeyRotationAnswer, renderKeyRotation } from '../../shared/wire/signing-key.ts';
import { historyOf } from '../history/history.ts';
import { callerOf } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { refuse, refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import { readConnectionStatus } from '../sync/sidecar-store.ts';
import { certifySidecarKey } from './certify-sidecar-key.ts';
import { signingKeysLimits } from './limits.ts';
import { renderRevokedKey, revokeSidecarKey } from './revoke-sidecar-key.ts';
import { compromiseSigningKey, rotateSigningKey } from './rotate-signing-key.ts';
import { findRevokedKey, type RevokedKey, readRevokedKeys } from './sidecar-key-store.ts';

const cacheControl = `public, max-age=${limits.jwksAgeMsMax / secondMs}`;

/** The public keys of this service, for offline verification of its passports and records (contract §11). */
export function jwksRoutes(deps: SigningDeps): FastifyPluginAsync {
  const keptKeys = keepRevokedKeys(deps);
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
    app.get(
      '/.well-known/sidecar-keys.json',
      { config: { scope: null }, schema: { response: { 200: RevokedSidecarKeys } } },
      async (_request, reply) => {
        const revoked = (await keptKeys()).map(renderRevokedKey);
        return reply.header('cache-control', cacheControl).send({ revoked });
      },
    );
  };
}

/** Strangers read them: one read of the database at a time, and at most one in `revokedKeptMs`. */
function keepRevokedKeys({ sql, clock }: SigningDeps): () => Promise<readonly RevokedKey[]> {
  let kept: { readonly keys: Promise<readonly RevokedKey[]>; readonly untilMs: number } | null = null;
  return () => {
    if (kept === null || clock.monotonic() >= kept.untilMs) {
      const keys = readRevokedKeys(sql);
      const read = { keys, untilMs: clock.monotonic() + signingKeysLimits.revokedKeptMs };
      kept = read;
      keys.catch(() => {
        if (kept === read) kept = null;
      });
    }
    return kept.keys;
  };
}

/** For sidecars; not a public interface. */
export function sidecarKeyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/receipt-key',
      { config: { scope: 'sidecars:connect' }, schema: { body: SidecarKeyCall } },
      async (request, reply) => {
        const { accountId } = callerOf(request);
        const { sidecar_id: sidecarId, connection_id: connectionId, ...claim } = request.body;
        const connection = { sidecarId, accountId, connectionId };
        const status = await readConnectionStatus(deps.sql, connection);
        if (status === 'unknown') return refuseUnknownConnection(reply);
        if (status === 'superseded') return refuseSupersededConnection(reply);
        const certificate = certifySidecarKey(deps, connection, claim);
        if ((await findRevokedKey(deps.sql, certificate.kid)) !== null)
          return refuse(reply, 409, 'sidecar_key_revoked', 'This key was revoked: make another one.');
        return { certificate };
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
    app.post(
      '/signing-keys/revoke-sidecar-key',
      { config, schema: { body: SidecarKeyRevocation, response: { 200: SidecarKeyRevoked } } },
      async (request) => revokeSidecarKey(deps, callerOf(request), request.body.kid),
    );
  };
}
