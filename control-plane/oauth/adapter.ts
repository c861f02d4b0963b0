import type { Adapter } from 'oidc-provider';
import { must } from '../../shared/errors/assert.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import {
  consumeArtifact,
  findArtifact,
  findArtifactByAlias,
  putArtifact,
  removeArtifact,
  removeArtifactsOfGrant,
} from './artifact-store.ts';
import type { OAuthDeps } from './deps.ts';

type AdapterDeps = Pick<OAuthDeps, 'sql' | 'clock' | 'random' | 'sealer'>;

/**
 * One model of the authorization server's library in PostgreSQL, so that any replica can continue for
 * another. Times are by the control plane's clock.
 *
 * `alreadyUsed` makes the error for a second consumption. The library checks before it consumes, so two
 * concurrent requests would both pass; here the row decides.
 */
export function databaseAdapter(deps: AdapterDeps, model: string, alreadyUsed: () => Error): Adapter {
  return {
    upsert: (id, payload, expiresInS) => {
      const seconds = must(expiresInS, 'whatever the authorization server keeps ends by itself');
      const endsAtMs = (deps.clock.now() + seconds * secondMs) as UnixMillis;
      return putArtifact(deps, { model, id }, { payload, endsAtMs });
    },
    find: async (id) => (await findArtifact(deps, { model, id })) ?? undefined,
    findByUid: async (id) => (await findArtifactByAlias(deps, { model, id })) ?? undefined,
    findByUserCode: async (id) => (await findArtifactByAlias(deps, { model, id })) ?? undefined,
    consume: async (id) => {
      if (!(await consumeArtifact(deps, { model, id }))) throw alreadyUsed();
    },
    destroy: (id) => removeArtifact(deps, { model, id }),
    revokeByGrantId: (id) => removeArtifactsOfGrant(deps, { model, id }),
  };
}

/** Keeps nothing and finds nothing. */
export const forgetfulAdapter: Adapter = {
  upsert: async () => undefined,
  find: async () => undefined,
  findByUid: async () => undefined,
  findByUserCode: async () => undefined,
  consume: async () => undefined,
  destroy: async () => undefined,
  revokeByGrantId: async () => undefined,
};
