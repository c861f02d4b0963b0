import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ExportAnswer } from '../../shared/attestation/export.ts';
import { type ExportFormat, exportFormats } from '../../shared/attestation/export-formats.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { decisionReasons, outcomes } from '../../shared/model/decision.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime } from '../../shared/model/time.ts';
import { RetentionAnswer, RetentionUpdate } from '../../shared/wire/api/retention.ts';
import {
  AttestationAnswer,
  AttestationPageAnswer,
  renderAttestation,
} from '../../shared/wire/evidence/attestation.ts';
import { FactsAnswer } from '../../shared/wire/evidence/fact.ts';
import type { Database, Transaction } from '../base/database.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams } from '../http/path-id.ts';
import { readTimeParameter } from '../http/time-parameter.ts';
import { readStalePage } from '../storage/replica-reads.ts';
import type { ExportSnapshot } from '../storage/snapshot-export.ts';
import { archiveRoutes } from './archive-routes.ts';
import { archivedBefore, monthBegins } from './archive-store.ts';
import { parseCursor, renderCursor } from './attestation-cursor.ts';
import type { AppendingDeps } from './deps.ts';
import { attestationExporter, type ExportedLog } from './export-attestations.ts';
import { getAttestationUseCase } from './get-attestation-use-case.ts';
import { auditFactsExport, getFacts } from './get-facts.ts';
import { timeOfId } from './id-uuid.ts';
import type { IngestHooks } from './ingest-batch.ts';
import { ingestRoutes } from './ingest-routes.ts';
import {
  type AttestationFilter,
  findPlace,
  listAttestations,
  outcomeFilters,
  type Place,
} from './list-attestations.ts';
import { archivedSince, retentionOf, setRetention } from './set-retention.ts';

const api = operationsOf('Audit', {
  listAttestations: {
    scope: getAttestationUseCase.scope,
    summary: 'List attestations, newest first',
    description:
      'Records of the passports and of the gates of the caller. `next_cursor` is the cursor of the next page; null on the last page. ' +
      'With `reason`, `permission_key` or `agent_id` a page may be short or empty although others follow.',
  },
  exportAttestations: {
    scope: getAttestationUseCase.scope,
    summary: 'Export whole chains, for offline verification',
    description:
      'The complete chains of the passports, gates and account of the caller, streamed from one snapshot. `format` decides the content type; ' +
      'docs/verify.md describes json and jsonl and how to verify them, docs/exports.md csv and the formats that others collect. ' +
      'With `facts=1` what opens the commitments of a record follows it, and the call is in the audit.',
    contents: {
      'application/x-ndjson': Type.String(),
      'application/json': ExportAnswer,
      'text/csv': Type.String(),
    },
    headers: ['Content-Disposition'],
  },
  getRetention: {
    scope: getAttestationUseCase.scope,
    summary: 'Get how long the account keeps records in the database',
  },
  setRetention: {
    scope: 'keys:manage',
    summary: 'Set how long the account keeps records in the database',
    description:
      'Records of older months leave the database with the next archive of the operator, which is written and verified before. Exports ' +
      'begin behind it and say so; no record is removed without an archive. Facts go after `facts_days`, by themselves.',
    examples: {
      year: { value: { days: 400 } },
      operator: { value: { days: null } },
      facts: { summary: 'Values that decisions read, for a month', value: { days: null, facts_days: 30 } },
    },
  },
  getAttestation: {
    scope: getAttestationUseCase.scope,
    summary: 'Get an attestation',
    errors: ['attestation_not_found'],
  },
  getAttestationFacts: {
    scope: getAttestationUseCase.scope,
    summary: 'Get what opens the commitments of an attestation',
    description:
      'Values that the decision read, with their salts, of the caller alone: of its gates, and of conditions in its passports. What was ' +
      'not kept, or is gone, is left out. The call is in the audit.',
    errors: ['attestation_not_found'],
  },
});

const ListQuery = Type.Object({
  passport_id: Type.Optional(Type.String()),
  gate_id: Type.Optional(Type.String()),
  agent_id: Type.Optional(Type.String()),
  decision: Type.Optional(Type.Enum(outcomes)),
  reason: Type.Optional(Type.Enum(decisionReasons)),
  permission_key: Type.Optional(Type.String()),
  outcome: Type.Optional(Type.Enum(outcomeFilters)),
  since: Type.Optional(Type.String()),
  until: Type.Optional(Type.String()),
  limit: Type.Integer({
    minimum: 1,
    maximum: limits.attestationPageItemsMax,
    default: limits.pageItemsDefault,
  }),
  cursor: Type.Optional(Type.String()),
});

const formats = Object.keys(exportFormats) as ExportFormat[];

const ExportQuery = Type.Object({
  format: Type.Enum(formats, { default: 'jsonl' }),
  since: Type.Optional(Type.String()),
  as_of: Type.Optional(Type.String()),
  facts: Type.Optional(Type.Enum(['1'])),
});

/**
 * The audit trail: decisions as attestations, page by page, one by one, and as whole chains (contract §9).
 */
export function attestationRoutes(
  deps: AppendingDeps,
  {
    exportSnapshot,
    log,
    ...hooks
  }: { readonly exportSnapshot: ExportSnapshot; readonly log: ExportedLog } & IngestHooks,
): FastifyPluginAsyncTypebox {
  const exportAttestations = attestationExporter(deps, exportSnapshot, log);

  return async (app) => {
    app.get(
      '/attestations',
      {
        config: api.listAttestations,
        schema: { querystring: ListQuery, response: { 200: AttestationPageAnswer } },
      },
      async (request) => {
        const caller = callerOf(request);
        const { query } = request;
        const filter: AttestationFilter = {
          passportId: query.passport_id ?? null,
          gateId: query.gate_id ?? null,
          agentId: query.agent_id ?? null,
          decision: query.decision ?? null,
          reason: query.reason ?? null,
          permissionKey: query.permission_key ?? null,
          sinceMs: readTimeParameter('since', query.since),
          untilMs: readTimeParameter('until', query.until),
          // Absent where it is: a walk goes on where a replica of the version before answers.
          ...(query.outcome !== undefined && { outcome: query.outcome }),
        };
        const asked = JSON.stringify([caller.accountId, caller.mode, filter]);
        return readStalePage(deps.sql, { owner: caller.accountId, query }, async (sql, { limit, cursor }) => {
          const archived_before = await archivedSince(sql, caller);
          const after = cursor === undefined ? null : await readCursor(sql, caller, { cursor, asked });
          if (after === 'archived') return { attestations: [], next_cursor: null, archived_before };
          const { attestations, last } = await listAttestations(sql, caller, filter, { limit, after });
          return {
            attestations: attestations.map(renderAttestation),
            next_cursor: last === null ? null : renderCursor(last, asked),
            archived_before,
          };
        });
      },
    );

    app.get(
      '/attestations/export',
      // A HEAD request would read the whole export for its length.
      { config: api.exportAttestations, schema: { querystring: ExportQuery }, exposeHeadRoute: false },
      async (request, reply) => {
        const { format, since, as_of, facts } = request.query;
        const caller = callerOf(request);
        const withFacts = facts !== undefined;
        if (withFacts && !exportFormats[format].isEvidence)
          throw invalidRequest('facts', 'facts goes with the formats jsonl and json.');
        const nowMs = deps.clock.now();
        const sinceMs = readTimeParameter('since', since);
        const asOfMs = readTimeParameter('as_of', as_of);
        if (withFacts) await auditFactsExport(deps, caller, format);
        const stream = await exportAttestations({ owner: caller, format, sinceMs, asOfMs, withFacts, nowMs });
        // 2026-11-20T09:00:00.000Z without characters that file systems and shells dislike.
        const moment = renderTime(nowMs).replaceAll(/[-:]|\.\d+/g, '');
        const { contentType, extension } = exportFormats[format];
        const name = `attestations-${caller.mode}-${moment}.${extension}`;
        reply.header('content-disposition', `attachment; filename="${name}"`);
        return reply.header('cache-control', 'no-store').type(contentType).send(stream);
      },
    );

    app.register(retentionRoutes(deps));
    app.register(factsRoute(deps));

    app.get(
      '/attestations/:id',
      { config: api.getAttestation, schema: { params: IdParams, response: { 200: AttestationAnswer } } },
      async (request) => getAttestationUseCase.run(deps, callerOf(request), request.params.id),
    );

    await app.register(archiveRoutes(deps, exportAttestations));
    await app.register(ingestRoutes(deps, hooks));
  };
}

function factsRoute(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/attestations/:id/facts',
      {
        config: api.getAttestationFacts,
        schema: { params: IdParams, response: { 200: FactsAnswer } },
        // Each is an entry of the audit.
        exposeHeadRoute: false,
      },
      async (request) => getFacts(deps, callerOf(request), request.params.id),
    );
  };
}

function retentionRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/attestations/retention',
      { config: api.getRetention, schema: { response: { 200: RetentionAnswer } } },
      async (request) => retentionOf(deps.sql, callerOf(request)),
    );

    app.put(
      '/attestations/retention',
      { config: api.setRetention, schema: { body: RetentionUpdate, response: { 200: RetentionAnswer } } },
      async (request) => {
        const { days = null, facts_days: factsDays } = request.body;
        return setRetention(deps, callerOf(request), { days, factsDays });
      },
    );
  };
}

/** `archived`: the last record of the page before has gone to an archive, and all that are older. */
async function readCursor(
  sql: Database | Transaction,
  owner: Owner,
  { cursor, asked }: { readonly cursor: string; readonly asked: string },
): Promise<Place | 'archived'> {
  const last = parseCursor(cursor, asked);
  const place = last === null ? null : await findPlace(sql, owner, last);
  if (place !== null) return place;
  const month = last === null ? null : await archivedBefore(sql, owner);
  if (last !== null && month !== null && timeOfId(last) < monthBegins(month)) return 'archived';
  throw invalidRequest('cursor', 'cursor must be the next_cursor of the same query.');
}
