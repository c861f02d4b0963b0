import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { auditedOperations } from '../../shared/model/audit.ts';
import { limits } from '../../shared/model/limits.ts';
import { AuditPageAnswer, renderAuditEntry } from '../../shared/wire/audit.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../http/auth.ts';
import { readTimeParameter } from '../http/time-parameter.ts';
import { parseAuditCursor, renderAuditCursor } from './audit-cursor.ts';
import { type AuditFilter, listAuditEntries } from './audit-store.ts';

const config = { scope: 'audit:read' } as const;

const ListQuery = Type.Object({
  actor: Type.Optional(Type.String()),
  operation: Type.Optional(Type.Enum(auditedOperations)),
  target: Type.Optional(Type.String()),
  since: Type.Optional(Type.String()),
  until: Type.Optional(Type.String()),
  limit: Type.Integer({ minimum: 1, maximum: limits.pageItemsMax, default: limits.pageItemsDefault }),
  cursor: Type.Optional(Type.String()),
});

/** Who changed what (decisions §16): entries of the caller's account and mode. */
export function auditRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/audit',
      { config, schema: { querystring: ListQuery, response: { 200: AuditPageAnswer } } },
      async (request) => {
        const caller = callerOf(request);
        const { limit, cursor, ...query } = request.query;
        const filter: AuditFilter = {
          actor: query.actor ?? null,
          operation: query.operation ?? null,
          target: query.target ?? null,
          sinceMs: readTimeParameter('since', query.since),
          untilMs: readTimeParameter('until', query.until),
        };
        const asked = JSON.stringify([caller.accountId, caller.mode, filter]);
        const behind = cursor === undefined ? null : parseAuditCursor(cursor, asked);
        if (cursor !== undefined && behind === null) {
          throw invalidRequest('cursor', 'cursor must be the next_cursor of the same query.');
        }
        const { entries, hasMore } = await listAuditEntries(deps.sql, caller, filter, { limit, behind });
        const last = hasMore ? entries.at(-1) : undefined;
        return {
          entries: entries.map(renderAuditEntry),
          next_cursor: last === undefined ? null : renderAuditCursor(last, asked),
        };
      },
    );
  };
}
