import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Counter, Histogram } from 'prom-client';
import { unreachable } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { firstTimeMs, parseAttestationBatch } from '../../shared/wire/sync/attestation-batch.ts';
import { callerOf } from '../http/caller.ts';
import { readUncheckedJson } from '../http/json-body.ts';
import { fairShare } from '../storage/fair-share.ts';
import { refuse, refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import type { AppendingDeps } from './deps.ts';
import { type IngestHooks, ingestBatch } from './ingest-batch.ts';
import { IngestQueue } from './ingest-queue.ts';
import { attestationsLimits } from './limits.ts';

/**
 * Endpoint for records of sidecars (ARCHITECTURE.md, "Attestations"). Not a public interface;
 * shared/wire/sync/sync.ts documents the answers.
 */
export function ingestRoutes(deps: AppendingDeps, hooks: IngestHooks): FastifyPluginAsyncTypebox {
  const { ingested, lag, ended, tornEnds } = ingestMetrics(deps);
  const share = fairShare<AccountId>({
    ...deps.shares.ingests,
    waitingPerOwnerMax: limits.ingestsWaitingPerAccountMax,
    waitMsMax: attestationsLimits.ingestTurnMsMax,
  });

  const ingestQueue = new IngestQueue();

  return async (app) => {
    // Of a record nothing is kept that parseBatchItem has not looked at: not twice what is most of the body.
    app.removeContentTypeParser('application/json');
    app.addContentTypeParser('application/json', readUncheckedJson);
    app.post(
      '/sync/attestations',
      { config: { scope: 'sidecars:connect' }, bodyLimit: limits.ingestBodyBytesMax },
      async (request, reply) => {
        const batch = parseAttestationBatch(request.body);
        const { accountId } = callerOf(request);
        const { answer, appended, voided, end } = await share(accountId, () =>
          ingestBatch({ ...deps, ...hooks, ingestQueue }, accountId, batch),
        );
        const where = { sidecar_id: batch.sidecarId, epoch: batch.epoch };
        ingested.inc({ outcome: 'taken' }, appended);
        // Records come in the order of their decisions, so the first is the oldest.
        const oldest = appended > 0 ? firstTimeMs(batch.items) : null;
        if (oldest !== null) lag.observe(Math.max(0, deps.clock.now() - oldest) / 1_000);
        for (const { seq, reason, count } of voided) {
          ingested.inc({ outcome: 'void' }, count);
          deps.logger.error({ ...where, last_seq: seq, count, reason }, 'a sidecar lost records');
        }
        if (end !== null && end !== 'known') {
          ended.inc({ leases: end });
          const torn = batch.end?.tornBytes ?? 0;
          if (torn > 0) tornEnds.inc();
          const isSound = end === 'returned' && torn === 0;
          deps.logger[isSound ? 'info' : 'warn'](
            { ...where, leases: end, torn_bytes: torn },
            'a spool of a sidecar has ended',
          );
        }
        switch (answer.kind) {
          case 'taken':
            return {
              next_seq: answer.nextSeq,
              ...(answer.receipts?.length && { receipts: answer.receipts }),
            };
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

function ingestMetrics({ metrics }: Pick<AppendingDeps, 'metrics'>) {
  const ingested = new Counter({
    name: 'agent_trust_ingested_records_total',
    help: 'Records from sidecars, by outcome. Investigate refused and void: each is logged.',
    labelNames: ['outcome'],
    registers: [metrics],
  });

  const lag = new Histogram({
    name: 'agent_trust_ingest_lag_seconds',
    help: 'Time from the decision of the oldest record of a batch to the acceptance of the batch.',
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400],
    registers: [metrics],
  });

  const ended = new Counter({
    name: 'agent_trust_spools_ended_total',
    help: 'Spools of sidecar processes that were shipped to their end. leases="kept": the units that the process had leased stay counted until their windows end, because a record may be missing.',
    labelNames: ['leases'],
    registers: [metrics],
  });
  const tornEnds = new Counter({
    name: 'agent_trust_torn_spools_total',
    help: 'Of those, spools that ended in the middle of a record: a crash interrupted the last write.',
    registers: [metrics],
  });
  return { ingested, lag, ended, tornEnds };
}
