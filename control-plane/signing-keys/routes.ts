import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyPluginAsync } from 'fastify';
import { renderJwks } from '../../shared/crypto/keyset.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import { JwksAnswer } from '../../shared/wire/api/jwks.ts';
import { KeyRotation, KeyRotationAnswer, renderKeyRotation } from '../../shared/wire/api/signing-key.ts';
import {
  RevokedSidecarKeys,
  SidecarKeyCall,
  SidecarKeyRevocation,
  SidecarKeyRevoked,
} from '../../shared/wire/evidence/decision-receipt.ts';
import { historyOf } from '../history/history.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { refuse, refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import { readConnectionStatus } from '../sync/sidecar-store.ts';
import { certifySidecarKey } from './certify-sidecar-key.ts';
import { signingKeysLimits } from './limits.ts';
import { renderRevokedKey, revokeSidecarKey } from './revoke-sidecar-key.ts';
import { compromiseSigningKey, rotateSigningKey } from './rotate-signing-key.ts';
import { findRevokedKey, type RevokedKey, readRevokedKeys } from './sidecar-key-store.ts';

const api = operationsOf('Signing keys', {
  getJwks: {
    scope: null,
    summary: 'Get the public keys of this service (RFC 7517)',
    description: 'Current, future and retired keys: every signature can be verified for ever.',
    headers: ['Cache-Control'],
  },
  getRevokedSidecarKeys: {
    scope: null,
    summary: 'Get the keys of sidecars that were revoked',
    description: 'Receipts that they signed prove nothing. See docs/receipts.md.',
    headers: ['Cache-Control'],
  },
  rotateSigningKey: {
    scope: 'admin:*',
    operatorOnly: true,
    summary: 'Replace a key with which this service signs',
    description:
      'For the operator of the service. The next key is published at once and signs 60 s later; the old one verifies for ever. With ' +
      '`compromised` signatures of the current key prove nothing any more, and the next key signs at once. With `kid` beside it those of that key, ' +
      'also of a retired one: then no key is replaced. 201: a new key; 200: a retired key was declared compromised, or what an earlier call did within ' +
      'the last 60 s, so that it may be repeated safely. See docs/keys.md.',
    examples: {
      rotation: { value: { purpose: 'passport' } },
      compromise: { summary: 'The private key leaked', value: { purpose: 'passport', compromised: true } },
      retired: {
        summary: 'The private key of a retired key leaked',
        value: { purpose: 'passport', compromised: true, kid: exampleIds.retiredKid },
      },
    },
  },
  revokeSidecarKey: {
    scope: 'admin:*',
    operatorOnly: true,
    summary: 'Revoke the key with which a sidecar signs receipts',
    description:
      'For the operator of the service, where the key may have leaked. What it signed proves nothing from now on, and its sidecar makes another ' +
      'one. For good: a repeat answers the same. See docs/receipts.md.',
    examples: {
      leaked: {
        summary: 'The private key leaked',
        value: { kid: 'ADDQAF1gzF8DzeJGfr6lczSgJW7EonViKE6Vnh_8hqI' },
      },
    },
  },
});

const cacheControl = `public, max-age=${limits.jwksAgeMsMax / secondMs}`;

/** The public keys of this service, for offline verification of its passports and records (contract §11). */
export function jwksRoutes(deps: SigningDeps): FastifyPluginAsync {
  const keptKeys = keepRevokedKeys(deps);
  return async (app) => {
    app.get(
      '/.well-known/jwks.json',
      { config: api.getJwks, schema: { response: { 200: JwksAnswer } } },
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
      { config: api.getRevokedSidecarKeys, schema: { response: { 200: RevokedSidecarKeys } } },
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

/**
 * The keys with which this service signs, for its operator alone (contract §11). 201: a new key; 200: an
 * earlier call's, see rotateSigningKey.
 */
export function signingKeyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/signing-keys/rotate',
      {
        config: api.rotateSigningKey,
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
      {
        config: api.revokeSidecarKey,
        schema: { body: SidecarKeyRevocation, response: { 200: SidecarKeyRevoked } },
      },
      async (request) => revokeSidecarKey(deps, callerOf(request), request.body.kid),
    );
  };
}
