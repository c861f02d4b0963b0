import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  AccountAnswer,
  AccountCreation,
  AccountUpdate,
  NewAccountAnswer,
  parseAccountCreation,
  renderAccount,
} from '../../shared/wire/api/account.ts';
import { renderApiKey } from '../../shared/wire/api/api-key.ts';
import { PageAnswer, PagingQuery, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findAccount, listAccounts } from './account-store.ts';
import { createAccount } from './create-account.ts';
import { updateAccount } from './update-account.ts';

const api = operationsOf('Accounts', {
  createAccount: {
    scope: 'admin:*',
    operatorOnly: true,
    creates: true,
    summary: 'Create an account with its first API key',
    description: '`api_key.key` is shown this once.',
    examples: {
      pro: { value: { name: 'Globex', plan: 'pro' } },
      enterprise: {
        summary: 'With limits of its own',
        value: { name: 'Initech', plan: 'enterprise', limits: { requests_per_minute: 1_000 } },
      },
    },
  },
  listAccounts: { scope: 'admin:*', operatorOnly: true, summary: 'List accounts, newest first' },
  getAccount: {
    scope: 'admin:*',
    operatorOnly: true,
    summary: 'Get an account',
    errors: ['account_not_found'],
  },
  updateAccount: {
    scope: 'admin:*',
    operatorOnly: true,
    summary: 'Change an account',
    description:
      'Only what is present changes; `limits` are replaced as a whole. Keys of a suspended account answer `account_suspended`, its passports ' +
      'are blocked `passport_suspended`.',
    errors: ['account_not_found'],
    examples: { suspension: { value: { status: 'suspended' } }, plan: { value: { plan: 'teams' } } },
  },
});
const accountId = (text: string) => pathId('acct', text, 'account_not_found');

/** The accounts of this service, for its operator alone (contract §2). */
export function accountRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/accounts',
      { config: api.createAccount, schema: { body: AccountCreation, response: { 201: NewAccountAnswer } } },
      async (request, reply) => {
        const wanted = parseAccountCreation(request.body);
        return answerCreated(request, reply, {
          create: (tx, change) => createAccount(tx, change, deps, wanted),
          render: ({ account, firstKey: { apiKey, key } }) => ({
            ...renderAccount(account),
            api_key: { ...renderApiKey(apiKey), key },
          }),
          audit: ({ account, firstKey: { apiKey } }) => ({
            operation: 'createAccount',
            target: account.accountId,
            before: null,
            after: { ...renderAccount(account), api_key: renderApiKey(apiKey) },
          }),
        });
      },
    );

    app.get(
      '/accounts',
      {
        config: api.listAccounts,
        schema: { querystring: PagingQuery, response: { 200: PageAnswer(AccountAnswer) } },
      },
      async (request) => {
        const page = placePage(request.query, callerOf(request), 'accounts');
        return renderPage(await listAccounts(deps.sql, page), page, renderAccount);
      },
    );

    app.get(
      '/accounts/:id',
      { config: api.getAccount, schema: { params: IdParams, response: { 200: AccountAnswer } } },
      async (request) => {
        const account = await findAccount(deps.sql, accountId(request.params.id));
        if (account === null) throw new ApiError('account_not_found');
        return renderAccount(account);
      },
    );

    app.put(
      '/accounts/:id',
      {
        config: api.updateAccount,
        schema: { params: IdParams, body: AccountUpdate, response: { 200: AccountAnswer } },
      },
      async (request) => {
        const wanted = { accountId: accountId(request.params.id), body: request.body };
        return renderAccount(await updateAccount(deps, callerOf(request), wanted));
      },
    );
  };
}
