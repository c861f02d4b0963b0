import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import {
  AccountAnswer,
  AccountCreation,
  AccountUpdate,
  NewAccountAnswer,
  parseAccountCreation,
  renderAccount,
} from '../../shared/wire/account.ts';
import { renderApiKey } from '../../shared/wire/api-key.ts';
import { PageAnswer, PagingQuery, placePage, renderPage } from '../../shared/wire/paging.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findAccount, listAccounts } from './account-store.ts';
import { createAccount } from './create-account.ts';
import { updateAccount } from './update-account.ts';

const config = { scope: 'admin:*', operatorOnly: true } as const;
const create = { ...config, creates: true } as const;
const accountId = (text: string) => pathId('acct', text, 'account_not_found');

/** The accounts of this service, for its operator alone (contract §2). */
export function accountRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/accounts',
      { config: create, schema: { body: AccountCreation, response: { 201: NewAccountAnswer } } },
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
      { config, schema: { querystring: PagingQuery, response: { 200: PageAnswer(AccountAnswer) } } },
      async (request) => {
        const page = placePage(request.query, callerOf(request), 'accounts');
        return renderPage(await listAccounts(deps.sql, page), page, renderAccount);
      },
    );

    app.get(
      '/accounts/:id',
      { config, schema: { params: IdParams, response: { 200: AccountAnswer } } },
      async (request) => {
        const account = await findAccount(deps.sql, accountId(request.params.id));
        if (account === null) throw new ApiError('account_not_found');
        return renderAccount(account);
      },
    );

    app.put(
      '/accounts/:id',
      { config, schema: { params: IdParams, body: AccountUpdate, response: { 200: AccountAnswer } } },
      async (request) => {
        const wanted = { accountId: accountId(request.params.id), body: request.body };
        return renderAccount(await updateAccount(deps, callerOf(request), wanted));
      },
    );
  };
}
