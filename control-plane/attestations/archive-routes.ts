import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { exportFormats } from '../../shared/attestation/export-formats.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import {
  ArchiveAnswer,
  ArchiveExportQuery,
  ArchivePlanAnswer,
  ArchivePlanRequest,
  ArchiveRequest,
} from '../../shared/wire/archive.ts';
import { callerOf } from '../http/caller.ts';
import { continueArchive, parseMonth, planArchive } from './archive-records.ts';
import type { AppendingDeps } from './deps.ts';
import type { ExportAttestations } from './export-attestations.ts';

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
        const { before, account_id: accountId, mode } = request.query;
        const owner = { accountId: accountId as AccountId, mode };
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
  };
}
