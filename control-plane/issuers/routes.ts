import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  IssuerAnswer,
  IssuerCreation,
  IssuerUpdate,
  parseIssuerCreation,
  renderIssuer,
} from '../../shared/wire/issuer.ts';
import { NamedListQuery, PageAnswer, partsAsked, placePage, renderPage } from '../../shared/wire/paging.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { createIssuer, readWantedKeys } from './create-issuer.ts';
import type { KeyDeps } from './follow-keys.ts';
import { findCountedIssuer, hasIssuerNamed, listIssuers } from './issuer-store.ts';
import { issuerOnRecord, readReplacing, updateIssuer } from './update-issuer.ts';

const create = { scope: 'issuers:create', creates: true } as const;
const read = { scope: 'issuers:read' } as const;
const update = { scope: 'issuers:update' } as const;
const issuerIdOf = (text: string) => pathId('iss', text, 'issuer_not_found');

/** Issuers of passports (contract §4). */
export function issuerRoutes(deps: KeyDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/issuers',
      { config: create, schema: { body: IssuerCreation, response: { 201: IssuerAnswer } } },
      async (request, reply) => {
        const asked = parseIssuerCreation(request.body);
        const federation = asked.federation === null ? null : await readWantedKeys(deps, asked.federation);
        const wanted = { ...asked, federation };
        return answerCreated(request, reply, {
          named: { kind: 'issuer', name: wanted.name, isTaken: hasIssuerNamed },
          create: (tx, change) => createIssuer(tx, change, deps, callerOf(request), wanted),
          render: renderIssuer,
          audit: (issuer) => ({
            operation: 'createIssuer',
            target: issuer.issuerId,
            before: null,
            after: issuerOnRecord(issuer),
          }),
        });
      },
    );

    app.get(
      '/issuers',
      { config: read, schema: { querystring: NamedListQuery, response: { 200: PageAnswer(IssuerAnswer) } } },
      async (request) => {
        const owner = callerOf(request);
        const namePart = request.query.name ?? null;
        const page = placePage(request.query, owner, 'issuers', partsAsked(request.query));
        const found = await listIssuers(deps.sql, owner, {
          namePart,
          page,
          nowMs: deps.clock.now(),
          toItem: renderIssuer,
          logger: deps.logger,
        });
        return renderPage(found, page, (item) => item);
      },
    );

    app.get(
      '/issuers/:id',
      { config: read, schema: { params: IdParams, response: { 200: IssuerAnswer } } },
      async (request) => {
        const issuerId = issuerIdOf(request.params.id);
        const nowMs = deps.clock.now();
        const issuer = await findCountedIssuer(deps.sql, callerOf(request), { issuerId, nowMs });
        if (issuer === null) throw new ApiError('issuer_not_found');
        return renderIssuer(issuer);
      },
    );

    app.put(
      '/issuers/:id',
      { config: update, schema: { params: IdParams, body: IssuerUpdate, response: { 200: IssuerAnswer } } },
      async (request) => {
        const issuerId = issuerIdOf(request.params.id);
        const { body } = request;
        const caller = callerOf(request);
        const replacing =
          body.federation === undefined ? null : await readReplacing(deps, caller, issuerId, body.federation);
        return renderIssuer(await updateIssuer(deps, caller, { issuerId, body, replacing }));
      },
    );
  };
}
