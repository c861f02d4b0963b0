import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  CatalogAnswer,
  CatalogPublication,
  parseCatalogPublication,
  renderCatalog,
} from '../../shared/wire/catalog.ts';
import { expireVoided } from '../approvals/void-approvals.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { entityTag, isKnownTo } from '../http/entity-tag.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { findCatalog, gateExists } from './catalog-store.ts';
import { catalogOnRecord, replaceCatalog } from './publish-catalog.ts';

const publish = { scope: 'gates:update', creates: true } as const;
const everybody = { scope: null } as const;
const gateIdOf = (text: string) => pathId('gate', text, 'gate_not_found');

/**
 * A new version is visible everywhere within a minute. The hash, not the cache, identifies the signed
 * content.
 */
const cacheControl = 'public, max-age=60';

const CatalogQuery = Type.Object({
  version: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
});

/**
 * Permission catalogs (contract §10): published by the gate's owner, readable by anyone who knows the gate's
 * id, in both modes.
 */
export function catalogRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/gates/:id/catalog',
      {
        config: publish,
        schema: { params: IdParams, body: CatalogPublication, response: { 201: CatalogAnswer } },
      },
      async (request, reply) => {
        const wanted = {
          caller: callerOf(request),
          gateId: gateIdOf(request.params.id),
          offer: parseCatalogPublication(request.body),
        };
        return answerCreated(request, reply, {
          create: (tx, change) => replaceCatalog(tx, change, deps, wanted),
          afterCommit: ({ voided }) => expireVoided(deps, voided),
          render: ({ catalog }) => renderCatalog(catalog),
          audit: ({ catalog }) => ({
            operation: 'publishCatalog',
            target: catalog.gateId,
            before: null,
            after: catalogOnRecord(catalog),
          }),
        });
      },
    );

    app.get(
      '/gates/:id/catalog',
      {
        config: everybody,
        schema: { params: IdParams, querystring: CatalogQuery, response: { 200: CatalogAnswer } },
      },
      async (request, reply) => {
        const gateId = gateIdOf(request.params.id);
        const catalog = await findCatalog(deps.sql, { gateId, version: request.query.version ?? null });
        if (catalog === null) {
          if (!(await gateExists(deps.sql, gateId))) throw new ApiError('gate_not_found');
          const { version } = request.query;
          throw new ApiError(
            'catalog_not_found',
            version === undefined ? {} : { message: `This gate has no catalog of version ${version}.` },
          );
        }
        const tag = entityTag(catalog.contentHash);
        reply.header('etag', tag).header('cache-control', cacheControl);
        if (isKnownTo(request.headers['if-none-match'], tag)) return notModified(reply);
        return renderCatalog(catalog);
      },
    );
  };
}

const notModified = (reply: FastifyReply): FastifyReply => reply.code(304).send();
