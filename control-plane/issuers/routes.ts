import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  IssuerAnswer,
  IssuerCreation,
  IssuerUpdate,
  parseIssuerCreation,
  renderIssuer,
} from '../../shared/wire/api/issuer.ts';
import {
  NamedListQuery,
  PageAnswer,
  partsAsked,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { createIssuer, readWantedKeys } from './create-issuer.ts';
import type { KeyDeps } from './follow-keys.ts';
import { findCountedIssuer, hasIssuerNamed, listIssuers } from './issuer-store.ts';
import { issuerOnRecord, readReplacing, updateIssuer } from './update-issuer.ts';

const api = operationsOf('Issuers', {
  createIssuer: {
    scope: 'issuers:create',
    creates: true,
    summary: 'Create an issuer',
    description:
      'With `federation` it is an issuer of others: its JWTs are passports wherever a passport is accepted. Its keys are read first.',
    errors: ['precondition_failed', 'wallet_not_found'],
    requestHeaders: ['If-None-Match: *'],
    examples: {
      issuer: { value: { name: 'Acme', domain: 'acme.example', trust_tier: 'L3' } },
      provider: {
        summary: 'An issuer of others',
        value: {
          name: 'Keycloak',
          federation: {
            type: 'jwks',
            issuer: 'https://login.acme.example/realms/agents',
            jwks: {
              keys: [
                {
                  kty: 'OKP',
                  crv: 'Ed25519',
                  alg: 'EdDSA',
                  kid: 'agents-1',
                  x: 'AD6gLYiueQ3TVIkZcXTlDo94I1w2p1JPXYXOHXenu3c',
                },
              ],
            },
            audiences: ['agent-gates'],
            claims: { agent_id: '/azp', permissions: '/realm_access/roles' },
            permission_map: { buyer: ['orders:create'] },
            trust_tier: 'L2',
          },
        },
      },
    },
  },
  listIssuers: { scope: 'issuers:read', summary: 'List issuers, newest first' },
  getIssuer: {
    scope: 'issuers:read',
    summary: 'Get an issuer with counts of its passports',
    errors: ['issuer_not_found'],
  },
  updateIssuer: {
    scope: 'issuers:update',
    summary: 'Change an issuer',
    description:
      'Only what is present changes; `federation` is replaced as a whole. Passports of a suspended issuer are blocked `issuer_untrusted`.',
    errors: ['issuer_not_found', 'wallet_not_found'],
    examples: { suspension: { value: { status: 'suspended' } }, name: { value: { name: 'Acme Corp' } } },
  },
});
const issuerIdOf = (text: string) => pathId('iss', text, 'issuer_not_found');

/** Issuers of passports (contract §4). */
export function issuerRoutes(deps: KeyDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/issuers',
      { config: api.createIssuer, schema: { body: IssuerCreation, response: { 201: IssuerAnswer } } },
      async (request, reply) => {
        const asked = parseIssuerCreation(request.body);
        const federation = asked.federation === null ? null : await readWantedKeys(deps, asked.federation);
        const wanted = { ...asked, federation };
        return answerCreated(request, reply, {
          named: { kind: 'issuer', name: wanted.name, labels: wanted.metadata, isTaken: hasIssuerNamed },
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
      {
        config: api.listIssuers,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(IssuerAnswer) } },
      },
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
      { config: api.getIssuer, schema: { params: IdParams, response: { 200: IssuerAnswer } } },
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
      {
        config: api.updateIssuer,
        schema: { params: IdParams, body: IssuerUpdate, response: { 200: IssuerAnswer } },
      },
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
