import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { closed } from '../../shared/wire/fields.ts';
import { PageAnswer } from '../../shared/wire/paging.ts';
import {
  IssuedPassportAnswer,
  OwnerAnswer,
  OwnerParams,
  PassportAnswer,
  PassportListItem,
  PassportListQuery,
  PassportRevocation,
  RevocationAnswer,
  RevocationQuery,
  renderPassport,
  VerificationAnswer,
} from '../../shared/wire/passport.ts';
import {
  type IssuePath,
  PassportIssue,
  parsePassportIssue,
  parseWalletId,
  UnattendedPassportIssue,
} from '../../shared/wire/passport-issue.ts';
import { PassportWallet } from '../../shared/wire/wallet.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { movePassportToWallet } from './move-to-wallet.ts';
import {
  getPassport,
  issuePassportUseCase,
  listPassportsUseCase,
  passportIdOf,
  revokePassportUseCase,
  verifyPassportUseCase,
} from './passport-use-cases.ts';
import { moveOwner } from './suspend-owner.ts';
import { reactivatePassport, suspendPassport } from './suspend-passport.ts';

const issue = { scope: issuePassportUseCase.scope, creates: true } as const;
const read = { scope: listPassportsUseCase.scope } as const;
const revoke = { scope: revokePassportUseCase.scope } as const;
const withoutFields = { params: IdParams, body: closed({}), response: { 200: PassportAnswer } };

const ofOwner = { params: OwnerParams, body: closed({}), response: { 200: OwnerAnswer } };

/** Passports of the caller's account and mode (contract §3). */
export function passportRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
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
      async (request) => listPassportsUseCase.run(deps, callerOf(request), request.query),
    );

    app.get(
      '/passports/:id',
      { config: read, schema: { params: IdParams, response: { 200: PassportAnswer } } },
      async (request) => renderPassport(await getPassport(deps, callerOf(request), request.params.id)),
    );

    app.get(
      '/passports/:id/verify',
      { config: read, schema: { params: IdParams, response: { 200: VerificationAnswer } } },
      async (request) => verifyPassportUseCase.run(deps, callerOf(request), request.params.id),
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
      async (request) =>
        revokePassportUseCase.run(deps, callerOf(request), {
          id: request.params.id,
          reason: request.body.reason,
          waitMs: request.query.wait_ms,
        }),
    );

    app.post('/passports/:id/suspend', { config: revoke, schema: withoutFields }, async (request) =>
      renderPassport(await suspendPassport(deps, callerOf(request), passportIdOf(request.params.id))),
    );

    app.post(
      '/passports/:id/wallet',
      {
        config: { scope: 'wallets:manage' },
        schema: { params: IdParams, body: PassportWallet, response: { 200: PassportAnswer } },
      },
      async (request) =>
        renderPassport(
          await movePassportToWallet(deps, callerOf(request), {
            passportId: passportIdOf(request.params.id),
            walletId: parseWalletId(request.body.wallet_id),
          }),
        ),
    );

    app.post('/passports/:id/reactivate', { config: revoke, schema: withoutFields }, async (request) =>
      renderPassport(await reactivatePassport(deps, callerOf(request), passportIdOf(request.params.id))),
    );

    for (const [verb, to] of [
      ['suspend', 'suspended'],
      ['reactivate', 'active'],
    ] as const) {
      app.post(`/owners/:owner/${verb}`, { config: revoke, schema: ofOwner }, async (request) =>
        moveOwner(deps, callerOf(request), { owner: request.params.owner, to }),
      );
    }
  };
}

/** `POST /api/passports`, for unattended agents (contract §3). Its answer is that of `POST /v1/passports`. */
export function unattendedPassportRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerIssued = issuer(deps, 'api');
  return async (app) => {
    app.post(
      '/passports',
      { config: issue, schema: { body: UnattendedPassportIssue, response: { 201: IssuedPassportAnswer } } },
      async (request, reply) => answerIssued(request, reply),
    );
  };
}

function issuer(deps: SigningDeps, path: IssuePath) {
  const answerCreated = creator(deps);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const operation = path === 'v1' ? 'issuePassport' : 'issuePassportUnattended';
    const wanted = parsePassportIssue(request.body, { path, nowMs: deps.clock.now() });
    return answerCreated(
      request,
      reply,
      issuePassportUseCase.creation(deps, callerOf(request), wanted, operation),
    );
  };
}
