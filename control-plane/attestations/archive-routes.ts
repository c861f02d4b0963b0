import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { exportFormats } from '../../shared/attestation/export-formats.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import {
  AccountArchiveAnswer,
  AccountArchivePlanAnswer,
  AccountArchivePlanRequest,
  AccountArchiveRequest,
  ArchiveAnswer,
  ArchiveExportQuery,
  ArchivePlanAnswer,
  ArchivePlanRequest,
  ArchiveRequest,
  DueArchivesAnswer,
  DueArchivesRequest,
} from '../../shared/wire/evidence/archive.ts';
import { callerOf } from '../http/caller.ts';
import { continueAccountArchive, planAccountArchive } from './archive-account.ts';
import { continueArchive, parseMonth, planArchive, renderMonth } from './archive-records.ts';
import type { AppendingDeps } from './deps.ts';
import type { ExportAttestations } from './export-attestations.ts';
import { dueOwners } from './retention-store.ts';

const config = { scope: 'admin:*', operatorOnly: true } as const;

/** Of the command `attestations archive`: each call does a bounded step. */
export function archiveRoutes(
  deps: AppendingDeps,
  exportAttestations: ExportAttestations,
): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/archive/plan',
      { config, schema: { body: ArchivePlanRequest, response: { 200: ArchivePlanAnswer } } },
      async (request) => {
        const { before, after } = request.body;
        const plan = await planArchive(deps, parseMonth(before), after);
        return {
          owners: plan.owners.map(({ owner, chains, records }) => ({
            account_id: owner.accountId,
            mode: owner.mode,
            chains,
            records,
          })),
          next: plan.next,
          partitions: [...plan.partitions],
          has_begun: plan.hasBegun,
        };
      },
    );

    app.get(
      '/sync/archive/export',
      { config, schema: { querystring: ArchiveExportQuery }, exposeHeadRoute: false },
      async (request, reply) => {
        const { before } = request.query;
        const owner = ownerOf(request.query);
        const asked = { owner, format: 'jsonl', sinceMs: null, nowMs: deps.clock.now() } as const;
        const stream = await exportAttestations({ ...asked, before: parseMonth(before) });
        return reply.header('cache-control', 'no-store').type(exportFormats.jsonl.contentType).send(stream);
      },
    );

    app.post(
      '/sync/archive',
      { config, schema: { body: ArchiveRequest, response: { 200: ArchiveAnswer } } },
      async (request) => {
        const { before, records, files } = request.body;
        const progress = await continueArchive(deps, callerOf(request), {
          before: parseMonth(before),
          records,
          files,
        });
        return { ...progress, partitions: [...progress.partitions] };
      },
    );

    await app.register(accountArchiveRoutes(deps));
  };
}

/** Of `attestations archive --due`. */
function accountArchiveRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/archive/due',
      { config, schema: { body: DueArchivesRequest, response: { 200: DueArchivesAnswer } } },
      async (request) => {
        const { after } = request.body;
        const { due, last } = await dueOwners(deps.sql, after === null ? null : ownerOf(after));
        return {
          due: due.map(({ owner, before, hasBegun }) => ({
            account_id: owner.accountId,
            mode: owner.mode,
            before: renderMonth(before),
            has_begun: hasBegun,
          })),
          next: last === null ? null : { account_id: last.accountId, mode: last.mode },
        };
      },
    );

    app.post(
      '/sync/archive/account/plan',
      { config, schema: { body: AccountArchivePlanRequest, response: { 200: AccountArchivePlanAnswer } } },
      async (request) => {
        const { before, after } = request.body;
        const asked = { before: parseMonth(before), after: after as ChainId | '' };
        return planAccountArchive(deps, ownerOf(request.body), asked);
      },
    );

    app.post(
      '/sync/archive/account',
      { config, schema: { body: AccountArchiveRequest, response: { 200: AccountArchiveAnswer } } },
      async (request) => {
        const { before, records } = request.body;
        const asked = { owner: ownerOf(request.body), before: parseMonth(before), records };
        return continueAccountArchive(deps, callerOf(request), asked);
      },
    );
  };
}

const ownerOf = ({ account_id: accountId, mode }: { account_id: string; mode: Mode }): Owner => ({
  accountId: accountId as AccountId,
  mode,
});
