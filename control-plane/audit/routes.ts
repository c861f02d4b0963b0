import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { auditedOperations } from '../../shared/model/audit.ts';
import { limits } from '../../shared/model/limits.ts';
import { renderTime } from '../../shared/model/time.ts';
import { AuditPageAnswer, renderAuditEntry } from '../../shared/wire/evidence/audit.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { readTimeParameter } from '../http/time-parameter.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { readStalePage } from '../storage/replica-reads.ts';
import type { ExportSnapshot } from '../storage/snapshot-export.ts';
import { parseAuditCursor, renderAuditCursor } from './audit-cursor.ts';
import { type AuditFilter, listAuditEntries } from './audit-store.ts';
import { exportAudit, type ReadLoggedHeads } from './export-audit.ts';

const api = operationsOf('Audit', {
  listAuditEntries: {
    scope: 'audit:read',
    summary: 'List who changed what, newest first',
    description:
      'One entry for each change through this API, in the account and mode of the caller: who, what, before and after, when, in which request. ' +
      'Entries are hash-linked and signed. See docs/audit.md.',
  },
  exportAudit: {
    scope: 'audit:read',
    summary: 'Export who changed what, for offline verification',
    description:
      "The chain of the caller's account and mode as jsonl, from one snapshot. `agent-trust attestations verify` verifies it too; docs/audit.md " +
      'describes it.',
    contents: { 'application/x-ndjson': Type.String() },
    headers: ['Content-Disposition'],
  },
});

const ListQuery = Type.Object({
  actor: Type.Optional(Type.String()),
  operation: Type.Optional(Type.Enum(auditedOperations)),
  target: Type.Optional(Type.String()),
  since: Type.Optional(Type.String()),
  until: Type.Optional(Type.String()),
  limit: Type.Integer({ minimum: 1, maximum: limits.pageItemsMax, default: limits.pageItemsDefault }),
  cursor: Type.Optional(Type.String()),
});

const ExportQuery = Type.Object({ since: Type.Optional(Type.String()) });

/** Who changed what (contract §16): entries of the caller's account and mode. */
export function auditRoutes(
  deps: SigningDeps,
  exportSnapshot: ExportSnapshot,
  readLogged: ReadLoggedHeads,
): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/audit',
      {
        config: api.listAuditEntries,
        schema: { querystring: ListQuery, response: { 200: AuditPageAnswer } },
      },
      async (request) => {
        const caller = callerOf(request);
        const { query } = request;
        const filter: AuditFilter = {
          actor: query.actor ?? null,
          operation: query.operation ?? null,
          target: query.target ?? null,
          sinceMs: readTimeParameter('since', query.since),
          untilMs: readTimeParameter('until', query.until),
        };
        const asked = JSON.stringify([caller.accountId, caller.mode, filter]);
        return readStalePage(deps.sql, { owner: caller.accountId, query }, async (sql, { limit, cursor }) => {
          const after = cursor === undefined ? null : parseAuditCursor(cursor, asked);
          if (cursor !== undefined && after === null) {
            throw invalidRequest('cursor', 'cursor must be the next_cursor of the same query.');
          }
          const { entries, hasMore } = await listAuditEntries(sql, caller, filter, { limit, after });
          const last = hasMore ? entries.at(-1) : undefined;
          return {
            entries: entries.map(renderAuditEntry),
            next_cursor: last === undefined ? null : renderAuditCursor(last, asked),
          };
        });
      },
    );

    app.get(
      '/audit/export',
      // Not for HEAD: it would read the whole export for its length.
      { config: api.exportAudit, schema: { querystring: ExportQuery }, exposeHeadRoute: false },
      async (request, reply) => {
        const owner = callerOf(request);
        const nowMs = deps.clock.now();
        const sinceMs = readTimeParameter('since', request.query.since);
        const stream = await exportAudit(exportSnapshot, readLogged, { owner, sinceMs, nowMs });
        // 2026-11-20T09:00:00.000Z without characters that file systems and shells dislike.
        const moment = renderTime(nowMs).replaceAll(/[-:]|\.\d+/g, '');
        reply.header('content-disposition', `attachment; filename="audit-${owner.mode}-${moment}.jsonl"`);
        return reply.header('cache-control', 'no-store').type('application/x-ndjson').send(stream);
      },
    );
  };
}
