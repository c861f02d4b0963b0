import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { clockOffsetHeader, parseClockOffset } from '../../shared/wire/sync/clock-offset.ts';
import { decisionTimesHeader, parseDecisionTimes } from '../../shared/wire/sync/decision-times.ts';
import { ackChannel, type Position, parseSidecarAgent, syncVersion } from '../../shared/wire/sync/sync.ts';
import {
  AckRequest,
  ChangesQuery,
  type ConnectAnswer,
  ConnectRequest,
  GoodbyeRequest,
  HistoryReport,
} from '../../shared/wire/sync/sync-schema.ts';
import type { RecordFormDeps } from '../base/record-form.ts';
import { type OnRegressed, takeReport } from '../history/take-report.ts';
import { callerOf } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { fairShare } from '../storage/fair-share.ts';
import { syncLimits } from './limits.ts';
import { readChanges } from './read-changes.ts';
import { refuseUnknownConnection } from './refuse.ts';
import { seenSidecarsOf } from './seen-sidecars.ts';
import { type Connection, connectSidecar, noteStopped, type SaidOfItself } from './sidecar-store.ts';
import { refuseSyncVersion } from './sync-version.ts';
import { takeSnapshot } from './take-snapshot.ts';

type SyncDeps = SigningDeps & RecordFormDeps;

const config = { scope: 'sidecars:connect' } as const;
const connectionSecretBytes = 16;
/** `reportReceiptsMax` receipts, each as long as it may be. */
const historyReportBytesMax = 2 * 1024 * 1024;

/**
 * Endpoints for sidecars (ARCHITECTURE.md, "The change feed"). Not a public interface;
 * shared/wire/sync/sync.ts documents each call.
 */
export function syncRoutes(deps: SyncDeps, onRegressed: OnRegressed): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(historyRoutes(deps, onRegressed));
    app.register(stateRoutes(deps));
    app.register(positionRoutes(deps));
  };
}

function historyRoutes(deps: SigningDeps, onRegressed: OnRegressed): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/sync/history',
      { config, schema: { body: HistoryReport }, bodyLimit: historyReportBytesMax },
      async (request) => takeReport(deps, callerOf(request).accountId, request.body, onRegressed),
    );
  };
}

function stateRoutes(deps: SyncDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post('/sync/connect', { config, schema: { body: ConnectRequest } }, async (request, reply) => {
      const { accountId } = callerOf(request);
      const { sync_version: version, sidecar_id: sidecarId, now_ms: sidecarNowMs, process } = request.body;
      if (version !== syncVersion) return refuseSyncVersion(reply);
      const connectionId = await connectSidecar(deps.sql, {
        sidecarId,
        accountId,
        process: process ?? encodeBase64url(deps.random.bytes(connectionSecretBytes)),
        // A sidecar that does not report its offset yet is measured by its clock, late by the latency of this
        // call.
        clockOffsetMs:
          parseClockOffset(request.headers[clockOffsetHeader]) ?? sidecarNowMs - deps.clock.now(),
        version: parseSidecarAgent(request.headers['user-agent']),
      });
      deps.logger.info({ sidecar_id: sidecarId, account_id: accountId }, 'a sidecar has connected');
      return {
        account_id: accountId,
        connection_id: connectionId,
        replica: deps.replicaId,
        now_ms: deps.clock.now(),
        record_form: deps.appending.recordForm(),
      } satisfies ConnectAnswer;
    });

    const snapshots = fairShare<AccountId>({
      ...deps.shares.snapshots,
      waitingPerOwnerMax: limits.snapshotsWaitingPerAccountMax,
      waitMsMax: syncLimits.snapshotTurnMsMax,
    });
    app.get('/sync/snapshot', { config }, async (request, reply) => {
      const { accountId } = callerOf(request);
      const pieces = await snapshots(accountId, () => takeSnapshot(deps, accountId));
      return reply.type('application/json; charset=utf-8').send(Readable.from(pieces));
    });
  };
}

function positionRoutes(deps: SyncDeps): FastifyPluginAsyncTypebox {
  const seen = seenSidecarsOf(deps);
  /** Notes what a connection has applied and wakes waiting revocations. False: the connection is unknown. */
  const note = async (
    connection: Connection,
    applied: Position,
    said: SaidOfItself = {},
  ): Promise<boolean> => {
    return seen.note(connection, applied, { said, news: () => deps.bus.publish(ackChannel, '') });
  };

  return async (app) => {
    app.get('/sync/changes', { config, schema: { querystring: ChangesQuery } }, async (request, reply) => {
      const { accountId } = callerOf(request);
      const { sidecar_id: sidecarId, connection_id: connectionId, ...query } = request.query;
      const after = {
        account: { revision: query.account_after, mark: query.account_mark },
        global: { revision: query.global_after, mark: query.global_mark },
      };
      const said = {
        times: parseDecisionTimes(request.headers[decisionTimesHeader]),
        clockOffsetMs: parseClockOffset(request.headers[clockOffsetHeader]),
      };
      if (!(await note({ sidecarId, connectionId, accountId }, after, said))) {
        return refuseUnknownConnection(reply);
      }
      return readChanges(deps, { accountId, after, waitMs: query.wait_ms });
    });

    app.post('/sync/ack', { config, schema: { body: AckRequest } }, async (request, reply) => {
      const { accountId } = callerOf(request);
      const { sidecar_id: sidecarId, connection_id: connectionId, ...body } = request.body;
      const applied = {
        account: { revision: body.account_revision, mark: body.account_mark },
        global: { revision: body.global_revision, mark: body.global_mark },
      };
      const isKnown = await note({ sidecarId, connectionId, accountId }, applied);
      return isKnown ? {} : refuseUnknownConnection(reply);
    });

    app.post('/sync/goodbye', { config, schema: { body: GoodbyeRequest } }, async (request) => {
      const { accountId } = callerOf(request);
      const { sidecar_id: sidecarId, connection_id: connectionId } = request.body;
      seen.forget(sidecarId);
      const hasStopped = await noteStopped(deps.sql, { sidecarId, connectionId, accountId });
      if (hasStopped) {
        deps.logger.info({ sidecar_id: sidecarId, account_id: accountId }, 'a sidecar has stopped');
        // Revocations stop waiting for its acknowledgement.
        deps.bus.publish(ackChannel, '');
      }
      return {};
    });
  };
}
