import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { closed } from '../../shared/wire/api/fields.ts';
import { PageAnswer } from '../../shared/wire/api/paging.ts';
import {
  IssuedPassportAnswer,
  OwnerAnswer,
  OwnerParams,
  PassportAnswer,
  PassportListItem,
  PassportListQuery,
  PassportRevocation,
  Reactivation,
  RevocationAnswer,
  RevocationQuery,
  renderOwner,
  renderPassport,
  VerificationAnswer,
} from '../../shared/wire/api/passport.ts';
import {
  type IssuePath,
  PassportIssue,
  parsePassportIssue,
  parseWalletId,
  UnattendedPassportIssue,
} from '../../shared/wire/api/passport-issue.ts';
import { PassportWallet } from '../../shared/wire/api/wallet.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
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

const api = operationsOf('Passports', {
  issuePassport: {
    scope: issuePassportUseCase.scope,
    creates: true,
    summary: 'Issue a passport',
    description:
      'Takes three bodies, told apart by their fields: with `subject` the machine description, with `agent_type` the unattended variant, else ' +
      'the reference. The answer contains two secrets, each returned only once: `jwt`, which the agent presents, and `private_key`, which the ' +
      'service generates, returns and does not store. Send `public_key` instead, and the service never has a private key.',
    errors: ['issuer_not_found', 'wallet_not_found', 'agent_id_conflict'],
    examples: {
      reference: {
        summary: 'Reference',
        value: {
          issuer_id: exampleIds.issuerId,
          agent_id: 'buyer-1',
          agent_name: 'Buyer',
          permissions: ['orders:create', 'orders:read'],
          expires_in_days: 30,
          trust_tier: 'L2',
          metadata: { team: 'procurement' },
        },
      },
      limited: {
        summary: 'Reference, with limits of its own',
        value: {
          agent_id: 'buyer-2',
          permissions: ['orders:*'],
          constraints: { spend_limits: { per_transaction_usd: 20 }, allowed_domains: ['*.example.com'] },
        },
      },
      machineDescription: {
        summary: 'Machine description',
        value: {
          issuer_id: exampleIds.issuerId,
          subject: { agent_id: 'researcher-7', model: 'example-model', version: '3', operator: 'Acme' },
          permissions: ['search:query'],
          expires_at: null,
        },
      },
      unattended: {
        summary: 'Unattended',
        value: {
          agent_name: 'Nightly job',
          agent_type: 'custom',
          permissions: ['reports:read'],
          expires_in: '12h',
        },
      },
      toolCall: {
        summary: 'As in the tool call',
        value: {
          issuer_id: exampleIds.issuerId,
          agent_id: 'buyer-3',
          permissions: ['orders:create'],
          expires_in: '30m',
        },
      },
    },
  },
  listPassports: { scope: listPassportsUseCase.scope, summary: 'List passports, newest first' },
  getPassport: {
    scope: listPassportsUseCase.scope,
    summary: 'Get a passport',
    errors: ['passport_not_found'],
  },
  verifyPassport: {
    scope: listPassportsUseCase.scope,
    summary: 'Ask whether a passport is valid now',
    description: 'An invalid passport is answered with 200 and the most severe reason.',
    errors: ['passport_not_found'],
  },
  revokePassport: {
    scope: revokePassportUseCase.scope,
    summary: 'Revoke a passport for ever',
    description:
      'Takes effect at every sidecar within 100 ms of the answer, or within 2 s without push; with `wait_ms` the answer waits for them. ' +
      'Repeating it answers the first revocation unchanged.',
    errors: ['passport_not_found'],
    examples: { reason: { value: { reason: 'laptop stolen' } } },
  },
  suspendPassport: {
    scope: revokePassportUseCase.scope,
    summary: 'Suspend a passport',
    description: 'It is blocked while one suspension stands: that of the account, or of an issuer.',
    errors: ['passport_not_found', 'passport_state_conflict'],
  },
  setPassportWallet: {
    scope: 'wallets:manage',
    tag: 'Wallets',
    summary: 'Put a passport into a wallet, or out of any',
    description:
      'From now on it draws on this wallet and those above it, as soon as sidecars learn of a revocation. What it has spent stays where it ' +
      'was taken from.',
    errors: ['passport_not_found', 'wallet_not_found', 'passport_state_conflict'],
    examples: { out: { summary: 'Out of any wallet', value: { wallet_id: null } } },
  },
  reactivatePassport: {
    scope: revokePassportUseCase.scope,
    summary: 'End a suspension of a passport',
    description:
      'Ends the suspension of the account, or with `issuer_id` that of this issuer; the answer shows what stands. ' +
      'Without `issuer_id` a passport of another issuer is reactivated after a revocation, too: its subject has no other.',
    errors: ['passport_not_found', 'issuer_not_found', 'agent_id_conflict', 'passport_state_conflict'],
    examples: {
      issuer: { summary: 'What an issuer has against it', value: { issuer_id: exampleIds.issuerId } },
    },
  },
  suspendOwner: {
    scope: revokePassportUseCase.scope,
    summary: 'Suspend all passports of an owner',
    description:
      'Also those that are issued or first seen later. Each passport that the suspension meets is suspended until it ends, whatever ' +
      'owner its tokens name then. Repeating it changes nothing.',
  },
  reactivateOwner: {
    scope: revokePassportUseCase.scope,
    summary: 'End a suspension of an owner',
    description:
      'Ends the suspension of the account, or with `issuer_id` that of this issuer; the answer shows what stands. A passport that was ' +
      'suspended by itself stays suspended.',
    errors: ['issuer_not_found'],
    examples: {
      issuer: { summary: 'What an issuer has against the owner', value: { issuer_id: exampleIds.issuerId } },
    },
  },
  issuePassportUnattended: {
    scope: issuePassportUseCase.scope,
    creates: true,
    summary: 'Issue a passport without a person present',
    description:
      'Takes the unattended variant, and the machine description where the body has `subject`. Answers like `POST /v1/passports`.',
    errors: ['issuer_not_found', 'wallet_not_found', 'agent_id_conflict'],
    examples: {
      unattended: {
        summary: 'Unattended',
        value: {
          agent_name: 'Weekly job',
          agent_type: 'custom',
          permissions: ['reports:read'],
          expires_in: '24h',
        },
      },
    },
  },
});
const withoutFields = { params: IdParams, body: closed({}), response: { 200: PassportAnswer } };

const ofOwner = { params: OwnerParams, response: { 200: OwnerAnswer } };

/** Passports of the caller's account and mode (contract §3). */
export function passportRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerIssued = issuer(deps, 'v1');
  return async (app) => {
    app.post(
      '/passports',
      { config: api.issuePassport, schema: { body: PassportIssue, response: { 201: IssuedPassportAnswer } } },
      async (request, reply) => answerIssued(request, reply),
    );

    app.get(
      '/passports',
      {
        config: api.listPassports,
        schema: { querystring: PassportListQuery, response: { 200: PageAnswer(PassportListItem) } },
      },
      async (request) => listPassportsUseCase.run(deps, callerOf(request), request.query),
    );

    app.get(
      '/passports/:id',
      { config: api.getPassport, schema: { params: IdParams, response: { 200: PassportAnswer } } },
      async (request) => renderPassport(await getPassport(deps, callerOf(request), request.params.id)),
    );

    app.get(
      '/passports/:id/verify',
      { config: api.verifyPassport, schema: { params: IdParams, response: { 200: VerificationAnswer } } },
      async (request) => verifyPassportUseCase.run(deps, callerOf(request), request.params.id),
    );

    app.post(
      '/passports/:id/revoke',
      {
        config: api.revokePassport,
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

    app.post(
      '/passports/:id/suspend',
      { config: api.suspendPassport, schema: withoutFields },
      async (request) =>
        renderPassport(await suspendPassport(deps, callerOf(request), passportIdOf(request.params.id))),
    );

    app.post(
      '/passports/:id/wallet',
      {
        config: api.setPassportWallet,
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

    app.post(
      '/passports/:id/reactivate',
      { config: api.reactivatePassport, schema: { ...withoutFields, body: Reactivation } },
      async (request) => {
        const passportId = passportIdOf(request.params.id);
        const { issuer_id: issuerId } = request.body;
        return renderPassport(await reactivatePassport(deps, callerOf(request), { passportId, issuerId }));
      },
    );

    app.register(ownerRoutes(deps));
  };
}

/** Owners of passports (contract §3). */
const ownerRoutes =
  (deps: SigningDeps): FastifyPluginAsyncTypebox =>
  async (app) => {
    app.post(
      '/owners/:owner/suspend',
      { config: api.suspendOwner, schema: { ...ofOwner, body: closed({}) } },
      async (request) =>
        renderOwner(await moveOwner(deps, callerOf(request), { ...request.params, to: 'suspended' })),
    );

    app.post(
      '/owners/:owner/reactivate',
      { config: api.reactivateOwner, schema: { ...ofOwner, body: Reactivation } },
      async (request) => {
        const { issuer_id: issuerId } = request.body;
        return renderOwner(
          await moveOwner(deps, callerOf(request), { ...request.params, to: 'active', issuerId }),
        );
      },
    );
  };

/** `POST /api/passports`, for unattended agents (contract §3). Its answer is that of `POST /v1/passports`. */
export function unattendedPassportRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerIssued = issuer(deps, 'api');
  return async (app) => {
    app.post(
      '/passports',
      {
        config: api.issuePassportUnattended,
        schema: { body: UnattendedPassportIssue, response: { 201: IssuedPassportAnswer } },
      },
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
