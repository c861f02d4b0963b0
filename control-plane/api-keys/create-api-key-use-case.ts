import type { NewApiKey } from '../../shared/wire/api/api-key.ts';
import { renderApiKey } from '../../shared/wire/api/api-key.ts';
import type { Creation } from '../creation/idempotency.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { createApiKey, type IssuedApiKey } from './create-api-key.ts';

/** `POST /api-keys`. A key grants only what its creator holds (contract §2). */
export const createApiKeyUseCase = {
  scope: 'keys:manage',
  creation: (deps: SigningDeps, caller: Caller, wanted: NewApiKey): Creation<IssuedApiKey> => ({
    create: (tx, change) => createApiKey(tx, change, deps, { caller, wanted }),
    render: renderIssuedKey,
    audit: ({ apiKey }) => ({
      operation: 'createApiKey',
      target: apiKey.keyId,
      before: null,
      after: renderApiKey(apiKey),
    }),
  }),
} as const;

export const renderIssuedKey = ({ apiKey, key }: IssuedApiKey) => ({ ...renderApiKey(apiKey), key });
