import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { scopes } from '../../shared/model/scopes.ts';
import { renderOptionalTime, renderTime, secondMs } from '../../shared/model/time.ts';
import {
  ApiKeyAnswer,
  ApiKeyCreation,
  ApiKeyDeletion,
  ApiKeyRoll,
  NewApiKeyAnswer,
  parseApiKeyCreation,
  renderApiKey,
} from '../../shared/wire/api/api-key.ts';
import {
  NamedListQuery,
  PageAnswer,
  partsAsked,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import { WhoAmIAnswer } from '../../shared/wire/api/who-am-i.ts';
import { renderActor } from '../../shared/wire/evidence/audit.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findApiKey, listApiKeys } from './api-key-store.ts';
import { createApiKeyUseCase, renderIssuedKey } from './create-api-key-use-case.ts';
import { deleteApiKey } from './delete-api-key.ts';
import { rollApiKey } from './roll-api-key.ts';

const api = operationsOf('API keys', {
  whoAmI: { scope: null, oneOfScopes: scopes, summary: 'Get what the calling key may do' },
  createApiKey: {
    scope: createApiKeyUseCase.scope,
    creates: true,
    summary: 'Create an API key',
    description: 'It grants only scopes that the calling key holds itself. `key` is shown this once.',
    examples: {
      sidecar: { summary: 'For a sidecar', value: { name: 'sidecar in eu-1', scopes: ['sidecars:connect'] } },
      backend: {
        summary: 'For a resource server, in the test world',
        value: { name: 'shop backend', scopes: ['enforcement:check'], mode: 'test' },
      },
    },
  },
  listApiKeys: { scope: createApiKeyUseCase.scope, summary: 'List API keys, newest first' },
  getApiKey: { scope: createApiKeyUseCase.scope, summary: 'Get an API key', errors: ['api_key_not_found'] },
  rollApiKey: {
    scope: createApiKeyUseCase.scope,
    summary: 'Replace an API key by a new one',
    description:
      'The old key stays valid for `overlap_s`; if the answer is lost, roll it again within that time. The new `key` is shown this once and expires when the old one would have without the roll.',
    errors: ['api_key_not_found'],
    examples: { overlap: { value: { overlap_s: 3_600 } } },
  },
  deleteApiKey: {
    scope: createApiKeyUseCase.scope,
    summary: 'Delete an API key at once',
    errors: ['api_key_not_found'],
  },
});
const keyId = (text: string) => pathId('key', text, 'api_key_not_found');

/** API keys of the caller's account and mode (contract §2). */
export function apiKeyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.get(
      '/whoami',
      { config: api.whoAmI, schema: { response: { 200: WhoAmIAnswer } } },
      async (request) => {
        const { accountId, mode, actor, scopes: held, expiresAtMs } = callerOf(request);
        return {
          account_id: accountId,
          mode,
          actor: renderActor(actor),
          scopes: [...held],
          expires_at: renderOptionalTime(expiresAtMs),
        };
      },
    );

    app.post(
      '/api-keys',
      { config: api.createApiKey, schema: { body: ApiKeyCreation, response: { 201: NewApiKeyAnswer } } },
      async (request, reply) => {
        const wanted = parseApiKeyCreation(request.body, deps.clock.now());
        return answerCreated(request, reply, createApiKeyUseCase.creation(deps, callerOf(request), wanted));
      },
    );

    app.get(
      '/api-keys',
      {
        config: api.listApiKeys,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(ApiKeyAnswer) } },
      },
      async (request) => {
        const owner = callerOf(request);
        const namePart = request.query.name ?? null;
        const page = placePage(request.query, owner, 'api-keys', partsAsked(request.query));
        return renderPage(await listApiKeys(deps.sql, owner, { namePart, page }), page, renderApiKey);
      },
    );

    app.get(
      '/api-keys/:id',
      { config: api.getApiKey, schema: { params: IdParams, response: { 200: ApiKeyAnswer } } },
      async (request) => {
        const key = await findApiKey(deps.sql, callerOf(request), keyId(request.params.id));
        if (key === null) throw new ApiError('api_key_not_found');
        return renderApiKey(key);
      },
    );

    app.post(
      '/api-keys/:id/roll',
      {
        config: api.rollApiKey,
        schema: { params: IdParams, body: ApiKeyRoll, response: { 200: NewApiKeyAnswer } },
      },
      async (request) => {
        const overlapMs = (request.body.overlap_s ?? 0) * secondMs;
        const options = { keyId: keyId(request.params.id), overlapMs };
        return renderIssuedKey(await rollApiKey(deps, callerOf(request), options));
      },
    );

    app.delete(
      '/api-keys/:id',
      { config: api.deleteApiKey, schema: { params: IdParams, response: { 200: ApiKeyDeletion } } },
      async (request) => {
        const id = keyId(request.params.id);
        const deletedAtMs = await deleteApiKey(deps, callerOf(request), id);
        return { key_id: id, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );
  };
}
