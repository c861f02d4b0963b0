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
} from '../../shared/wire/api-key.ts';
import { renderActor } from '../../shared/wire/audit.ts';
import { NamedListQuery, PageAnswer, partsAsked, placePage, renderPage } from '../../shared/wire/paging.ts';
import { WhoAmIAnswer } from '../../shared/wire/who-am-i.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findApiKey, listApiKeys } from './api-key-store.ts';
import { createApiKeyUseCase, renderIssuedKey } from './create-api-key-use-case.ts';
import { deleteApiKey } from './delete-api-key.ts';
import { rollApiKey } from './roll-api-key.ts';

const config = { scope: createApiKeyUseCase.scope } as const;
const create = { ...config, creates: true } as const;
const keyId = (text: string) => pathId('key', text, 'api_key_not_found');

/** API keys of the caller's account and mode (contract §2). */
export function apiKeyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.get(
      '/whoami',
      { config: { scope: null, oneOfScopes: scopes }, schema: { response: { 200: WhoAmIAnswer } } },
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
      { config: create, schema: { body: ApiKeyCreation, response: { 201: NewApiKeyAnswer } } },
      async (request, reply) => {
        const wanted = parseApiKeyCreation(request.body, deps.clock.now());
        return answerCreated(request, reply, createApiKeyUseCase.creation(deps, callerOf(request), wanted));
      },
    );

    app.get(
      '/api-keys',
      { config, schema: { querystring: NamedListQuery, response: { 200: PageAnswer(ApiKeyAnswer) } } },
      async (request) => {
        const owner = callerOf(request);
        const namePart = request.query.name ?? null;
        const page = placePage(request.query, owner, 'api-keys', partsAsked(request.query));
        return renderPage(await listApiKeys(deps.sql, owner, { namePart, page }), page, renderApiKey);
      },
    );

    app.get(
      '/api-keys/:id',
      { config, schema: { params: IdParams, response: { 200: ApiKeyAnswer } } },
      async (request) => {
        const key = await findApiKey(deps.sql, callerOf(request), keyId(request.params.id));
        if (key === null) throw new ApiError('api_key_not_found');
        return renderApiKey(key);
      },
    );

    app.post(
      '/api-keys/:id/roll',
      { config, schema: { params: IdParams, body: ApiKeyRoll, response: { 200: NewApiKeyAnswer } } },
      async (request) => {
        const overlapMs = (request.body.overlap_s ?? 0) * secondMs;
        const options = { keyId: keyId(request.params.id), overlapMs };
        return renderIssuedKey(await rollApiKey(deps, callerOf(request), options));
      },
    );

    app.delete(
      '/api-keys/:id',
      { config, schema: { params: IdParams, response: { 200: ApiKeyDeletion } } },
      async (request) => {
        const id = keyId(request.params.id);
        const deletedAtMs = await deleteApiKey(deps, callerOf(request), id);
        return { key_id: id, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );
  };
}
