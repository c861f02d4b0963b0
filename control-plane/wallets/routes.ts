import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import { closed } from '../../shared/wire/api/fields.ts';
import { PageAnswer, partsAsked, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import {
  parseWalletCreation,
  renderWallet,
  renderWalletDetail,
  WalletAnswer,
  WalletCreation,
  WalletDeletion,
  WalletDetailAnswer,
  WalletListQuery,
  WalletPatch,
  WalletStatementAnswer,
  WalletStatementQuery,
} from '../../shared/wire/api/wallet.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { readIfMatch } from '../http/entity-tag.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { createWallet } from './create-wallet.ts';
import { deleteWallet, setWalletStatus } from './freeze-wallet.ts';
import { walletsRoomLimits } from './limits.ts';
import { readStatement } from './read-statement.ts';
import { readWalletUsage } from './read-wallet.ts';
import { updateWallet } from './update-wallet.ts';
import { countInside, findChildren, findWallet, hasWalletNamed, listWallets } from './wallet-store.ts';
import { walletTag } from './wallet-tag.ts';

const api = operationsOf('Wallets', {
  listWallets: {
    scope: 'wallets:read',
    summary: 'List wallets, newest first',
    description: 'With `parent_wallet_id` those below that wallet; with an empty one those without a parent.',
  },
  getWallet: {
    scope: 'wallets:read',
    summary: 'Get a wallet, with what is left of each limit',
    errors: ['wallet_not_found'],
    headers: ['ETag'],
  },
  getWalletStatement: {
    scope: 'wallets:read',
    summary: 'What was spent from a wallet, by passport, gate and permission',
    description:
      'The sums of the records of this wallet and of those below it, of PERMITs from `since` up to `until`, at most 32 days. At most 1,000 ' +
      'lines in the order of their ids; totals are of all. The rest is asked for with `page`.',
    errors: ['wallet_not_found'],
  },
  createWallet: {
    scope: 'wallets:manage',
    creates: true,
    summary: 'Create a wallet',
    description:
      'A budget of many passports. Every PERMIT of a passport in it takes from it and from all wallets above it, or from none of them.',
    errors: ['wallet_not_found', 'precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
    examples: {
      company: { value: { name: 'Purchasing', limits: { monthly_usd: 5000, requests_per_minute: 600 } } },
    },
  },
  updateWallet: {
    scope: 'wallets:manage',
    summary: 'Change or move a wallet',
    description:
      'A JSON merge patch. What is lowered or moved binds units that are not leased yet; what was taken stays where it was taken from.',
    errors: ['wallet_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
    examples: { lower: { value: { limits: { monthly_usd: 4000 }, alert_at: 0.9 } } },
  },
  freezeWallet: {
    scope: 'wallets:manage',
    summary: 'Block all passports of a wallet and of those below it',
    description: 'Binds sidecars as fast as a revocation.',
    errors: ['wallet_not_found'],
  },
  unfreezeWallet: {
    scope: 'wallets:manage',
    summary: 'Let a frozen wallet be used again',
    errors: ['wallet_not_found'],
  },
  deleteWallet: {
    scope: 'wallets:manage',
    summary: 'Delete an empty wallet',
    errors: ['wallet_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
  },
});
const walletIdOf = (text: string) => pathId('wal', text, 'wallet_not_found');
const withoutFields = { params: IdParams, body: closed({}), response: { 200: WalletAnswer } };

/** Wallets of the caller's account and mode (contract §6). */
export function walletRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(readRoutes(deps));
    app.register(statementRoutes(deps));
    app.register(changeRoutes(deps));
  };
}

function readRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/wallets',
      {
        config: api.listWallets,
        schema: { querystring: WalletListQuery, response: { 200: PageAnswer(WalletAnswer) } },
      },
      async (request) => {
        const caller = callerOf(request);
        const { name = null, parent_wallet_id: parentId = null } = request.query;
        const page = placePage(request.query, caller, 'wallets', [parentId, ...partsAsked(request.query)]);
        const found = await listWallets(deps.sql, caller, { filter: { namePart: name, parentId }, page });
        return renderPage(found, page, renderWallet);
      },
    );

    app.get(
      '/wallets/:id',
      { config: api.getWallet, schema: { params: IdParams, response: { 200: WalletDetailAnswer } } },
      async (request, reply) => {
        const wallet = await findWallet(deps.sql, callerOf(request), walletIdOf(request.params.id));
        if (wallet === null) throw new ApiError('wallet_not_found');
        const nowMs = deps.clock.now();
        reply.header('etag', walletTag(wallet));
        const inside = await countInside(deps.sql, wallet.walletId, nowMs);
        return renderWalletDetail(wallet, {
          usage: await readWalletUsage(deps.sql, wallet, nowMs),
          passports: inside.passports,
          children: await findChildren(deps.sql, wallet.walletId, walletsRoomLimits.childrenShownMax),
          childrenTotal: inside.children,
        });
      },
    );
  };
}

function statementRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/wallets/:id/statement',
      {
        config: api.getWalletStatement,
        schema: {
          params: IdParams,
          querystring: WalletStatementQuery,
          response: { 200: WalletStatementAnswer },
        },
      },
      async (request) => {
        const owner = callerOf(request);
        const walletId = walletIdOf(request.params.id);
        if ((await findWallet(deps.sql, owner, walletId)) === null) throw new ApiError('wallet_not_found');
        return readStatement(deps.sql, { walletId, query: request.query });
      },
    );
  };
}

function changeRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/wallets',
      { config: api.createWallet, schema: { body: WalletCreation, response: { 201: WalletAnswer } } },
      async (request, reply) => {
        const owner = callerOf(request);
        const wanted = parseWalletCreation(request.body);
        return answerCreated(request, reply, {
          create: (tx, change) => createWallet(tx, change, deps, { owner, wanted }),
          named: { kind: 'wallet', name: wanted.name, labels: wanted.labels, isTaken: hasWalletNamed },
          render: renderWallet,
          audit: (wallet) => ({
            operation: 'createWallet',
            target: wallet.walletId,
            before: null,
            after: renderWallet(wallet),
          }),
        });
      },
    );

    app.put(
      '/wallets/:id',
      {
        config: api.updateWallet,
        schema: { params: IdParams, body: WalletPatch, response: { 200: WalletAnswer } },
      },
      async (request, reply) => {
        const wallet = await updateWallet(deps, callerOf(request), {
          walletId: walletIdOf(request.params.id),
          patch: request.body,
          ifMatch: readIfMatch(request.headers['if-match']),
        });
        reply.header('etag', walletTag(wallet));
        return renderWallet(wallet);
      },
    );

    for (const [verb, status] of [
      ['freeze', 'frozen'],
      ['unfreeze', 'active'],
    ] as const)
      app.post(
        `/wallets/:id/${verb}`,
        { config: api[`${verb}Wallet`], schema: withoutFields },
        async (request) =>
          renderWallet(
            await setWalletStatus(deps, callerOf(request), {
              walletId: walletIdOf(request.params.id),
              status,
            }),
          ),
      );

    app.delete(
      '/wallets/:id',
      { config: api.deleteWallet, schema: { params: IdParams, response: { 200: WalletDeletion } } },
      async (request) => {
        const walletId = walletIdOf(request.params.id);
        const ifMatch = readIfMatch(request.headers['if-match']);
        const deletedAtMs = await deleteWallet(deps, callerOf(request), { walletId, ifMatch });
        return { wallet_id: walletId, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );
  };
}
