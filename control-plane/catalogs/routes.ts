import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  CatalogAnswer,
  CatalogPublication,
  parseCatalogPublication,
  renderCatalog,
} from '../../shared/wire/api/catalog.ts';
import { expireVoided } from '../approvals/void-approvals.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { entityTag, isKnownTo } from '../http/entity-tag.ts';
import { errorsOfPublicReads, operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { findCatalog, gateExists } from './catalog-store.ts';
import { catalogOnRecord, replaceCatalog } from './publish-catalog.ts';

const api = operationsOf('Catalogs', {
  publishCatalog: {
    scope: 'gates:update',
    creates: true,
    summary: "Publish the next version of a gate's catalog",
    description:
      'Versions are immutable and count from 1. From then on a permission that is not in the catalog is blocked at the gate.',
    errors: ['gate_not_found'],
    examples: {
      catalog: {
        value: {
          permissions: [
            {
              key: 'orders:create',
              display_name: 'Create an order',
              pricing: { model: 'per_call', price_cents: 5, currency: 'USD' },
              category: 'commerce',
              risk_level: 'medium',
              sla: { uptime_basis_points: 9_990, response_time_ms: 200 },
            },
            { key: 'orders:read', display_name: 'Read orders' },
          ],
        },
      },
    },
  },
  getCatalog: {
    scope: null,
    summary: 'Get a catalog: the newest, or the given version',
    description:
      'Its signature verifies with a key of purpose `catalog` of the JWKS. Without `version` the newest.',
    errors: [...errorsOfPublicReads, 'gate_not_found', 'catalog_not_found'],
    requestHeaders: ['If-None-Match'],
    headers: ['ETag', 'Cache-Control'],
  },
});
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
        config: api.publishCatalog,
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
          afterCommit: async ({ voided }) => {
            await expireVoided(deps, voided);
            return {};
          },
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
        config: api.getCatalog,
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
