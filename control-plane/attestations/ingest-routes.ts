import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Counter } from 'prom-client';
import { unreachable } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseAttestationBatch } from '../../shared/wire/spooled-record.ts';
import type { Deps } from '../deps.ts';
import { callerOf } from '../http/auth.ts';
import { refuse, refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import { ingestBatch } from './ingest-batch.ts';

/** How records of sidecars arrive (ARCHITECTURE.md, "Attestations"). Not a public interface; shared/wire/sync.ts says what the answers mean. */
export function ingestRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  const ingested = new Counter({
    name: 'agent_trust_ingested_records_total',
    help: 'Records from sidecars. refused and void want to be looked at: each is told in the log.',
    labelNames: ['outcome'],
    registers: [deps.metrics],
  });

  return async (app) => {
    app.post(
      '/sync/attestations',
      { config: { scope: 'sidecars:connect' }, bodyLimit: limits.ingestBodyBytesMax },
      async (request, reply) => {
        const batch = parseAttestationBatch(request.body);
        const { answer, appended, voided } = await ingestBatch(deps, callerOf(request).accountId, batch);
        const where = { sidecar_id: batch.sidecarId, epoch: batch.epoch };
        ingested.inc({ outcome: 'taken' }, appended);
        for (const { seq, reason, count } of voided) {
          ingested.inc({ outcome: 'void' }, count);
          deps.logger.error({ ...where, last_seq: seq, count, reason }, 'a sidecar gave up records');
        }
        switch (answer.kind) {
          case 'taken':
            return { next_seq: answer.nextSeq };
          case 'gap':
            return refuse(reply, 409, 'sequence_gap', 'Records before this batch are missing.', {
              expected_seq: answer.expectedSeq,
            });
          case 'superseded':
            return refuseSupersededConnection(reply);
          case 'reconnect':
            return refuseUnknownConnection(reply);
          case 'refused':
            ingested.inc({ outcome: 'refused' }, answer.refused.length);
            deps.logger.error({ ...where, refused: answer.refused }, 'records of a sidecar were refused');
            return refuse(reply, 400, 'record_refused', 'Nothing of this batch was taken.', {
              refused: answer.refused,
            });
          default:
            return unreachable(answer);
        }
      },
    );
  };
}
