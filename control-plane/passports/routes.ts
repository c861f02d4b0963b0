import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime } from '../../shared/model/time.ts';
import { closed } from '../../shared/wire/fields.ts';
import { PageAnswer, renderPage } from '../../shared/wire/paging.ts';
import {
  IssuedPassportAnswer,
  PassportAnswer,
  PassportListItem,
  PassportListQuery,
  PassportRevocation,
  RevocationAnswer,
  RevocationQuery,
  renderIssuedPassport,
  renderPassport,
  renderPassportListItem,
  renderVerification,
  VerificationAnswer,
} from '../../shared/wire/passport.ts';
import {
  type IssuePath,
  PassportIssue,
  parsePassportIssue,
  UnattendedPassportIssue,
} from '../../shared/wire/passport-issue.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../http/auth.ts';
import { creator } from '../http/idempotency.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { propagationOf } from '../sync/propagation.ts';
import { issuePassport } from './issue-passport.ts';
import { findPassport, listPassports, type StoredPassport } from './passport-store.ts';
import { revokePassport } from './revoke-passport.ts';
import { reactivatePassport, suspendPassport } from './suspend-passport.ts';

const issue = { scope: 'passports:issue', creates: true } as const;
const read = { scope: 'passports:read' } as const;
const revoke = { scope: 'passports:revoke' } as const;
const withoutFields = { params: IdParams, body: closed({}), response: { 200: PassportAnswer } };
const passportIdOf = (text: string) => pathId('pass', text, 'passport_not_found');

/** Passports of the caller's account and mode (decisions §3). */
export function passportRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  const answerIssued = issuer(deps, 'v1');
  return async (app) => {
    app.post(
      '/passports',
      { config: issue, schema: { body: PassportIssue, response: { 201: IssuedPassportAnswer } } },
      async (request, reply) => answerIssued(request, reply),
    );

    app.get(
      '/passports',
      {
        config: read,
        schema: { querystring: PassportListQuery, response: { 200: PageAnswer(PassportListItem) } },
      },
      async (request) => {
        const wanted = { filter: parseFilter(request.query), page: request.query, nowMs: deps.clock.now() };
        const page = await listPassports(deps.sql, callerOf(request), wanted);
        return renderPage(page, request.query, renderPassportListItem);
      },
    );

    app.get(
      '/passports/:id',
      { config: read, schema: { params: IdParams, response: { 200: PassportAnswer } } },
      async (request) => renderPassport(await getPassport(deps, callerOf(request), request.params.id)),
    );

    app.get(
      '/passports/:id/verify',
      { config: read, schema: { params: IdParams, response: { 200: VerificationAnswer } } },
      async (request) => {
        const passport = await getPassport(deps, callerOf(request), request.params.id);
        return renderVerification(passport, { ...passport, nowMs: deps.clock.now() });
      },
    );

    app.post(
      '/passports/:id/revoke',
      {
        config: revoke,
        schema: {
          params: IdParams,
          body: PassportRevocation,
          querystring: RevocationQuery,
          response: { 200: RevocationAnswer },
        },
      },
      async (request) => {
        const passportId = passportIdOf(request.params.id);
        const reason = request.body.reason ?? 'unspecified';
        const revocation = await revokePassport(deps, callerOf(request), { passportId, reason });
        const waitMs = request.query.wait_ms;
        const propagation = await propagationOf(deps, revocation.globalRevision, { waitMs });
        return {
          passport_id: passportId,
          id: passportId,
          status: 'revoked' as const,
          revoked_at: renderTime(revocation.revokedAtMs),
          reason: revocation.reason,
          propagation,
        };
      },
    );

    app.post('/passports/:id/suspend', { config: revoke, schema: withoutFields }, async (request) =>
      renderPassport(await suspendPassport(deps, callerOf(request), passportIdOf(request.params.id))),
    );

    app.post('/passports/:id/reactivate', { config: revoke, schema: withoutFields }, async (request) =>
      renderPassport(await reactivatePassport(deps, callerOf(request), passportIdOf(request.params.id))),
    );
  };
}

/** `POST /api/passports`, for agents that nobody attends (specification "Unattended issuance"). Its answer is that of `POST /v1/passports`. */
export function unattendedPassportRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  const answerIssued = issuer(deps, 'api');
  return async (app) => {
    app.post(
      '/passports',
      { config: issue, schema: { body: UnattendedPassportIssue, response: { 201: IssuedPassportAnswer } } },
      async (request, reply) => answerIssued(request, reply),
    );
  };
}

function issuer(deps: Deps, path: IssuePath) {
  const answerCreated = creator(deps);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const wanted = parsePassportIssue(request.body, { path, nowMs: deps.clock.now() });
    return answerCreated(request, reply, {
      create: (tx) => issuePassport(tx, deps, callerOf(request), wanted),
      render: (issued) => renderIssuedPassport(issued.passport, issued),
    });
  };
}

async function getPassport(deps: Deps, owner: Owner, text: string): Promise<StoredPassport> {
  const passport = await findPassport(deps.sql, owner, {
    passportId: passportIdOf(text),
    nowMs: deps.clock.now(),
  });
  if (passport === null) throw new ApiError('passport_not_found');
  return passport;
}

function parseFilter(query: Static<typeof PassportListQuery>) {
  if (query.issuer_id !== undefined && !isId('iss', query.issuer_id)) {
    throw invalidRequest('issuer_id', 'issuer_id must be the id of an issuer.');
  }
  return {
    issuerId: query.issuer_id ?? null,
    status: query.status ?? null,
    trustTier: query.trust_tier ?? null,
  };
}
