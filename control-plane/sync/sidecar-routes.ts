import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import { renderTime } from '../../shared/model/time.ts';
import { PagingQuery, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import { type SidecarAnswer, SidecarListAnswer } from '../../shared/wire/api/sidecar.ts';
import type { BaseDeps } from '../base/deps.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { listSidecars, type SeenSidecar } from './sidecar-store.ts';

const api = operationsOf('Statistics', {
  listSidecars: {
    scope: 'gates:read',
    summary: 'List the sidecars of your account',
    description: 'Those last heard of first. A sidecar serves both modes.',
  },
});

/** The sidecars of the caller's account, which serve both modes. */
export function sidecarRoutes({ sql }: Pick<BaseDeps, 'sql'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/sidecars',
      {
        config: api.listSidecars,
        schema: { querystring: PagingQuery, response: { 200: SidecarListAnswer } },
      },
      async (request) => {
        const { accountId } = callerOf(request);
        // Sidecars serve both modes, so paging may continue in the other one.
        const page = placePage(request.query, { accountId, mode: 'live' }, 'sidecars');
        return renderPage(await listSidecars(sql, accountId, page), page, renderSidecar);
      },
    );
  };
}

const renderSidecar = (each: SeenSidecar): Static<typeof SidecarAnswer> => ({
  sidecar_id: each.sidecarId,
  version: each.version,
  is_connected: each.isConnected,
  connected_at: renderTime(each.connectedAtMs),
  last_seen_at: renderTime(each.lastSeenAtMs),
  stopped_at: each.stoppedAtMs === null ? null : renderTime(each.stoppedAtMs),
  lag_ms: each.silentMs,
  changes_behind: each.changesBehind,
  clock_offset_ms: each.clockOffsetMs,
  decision_times:
    each.decisions === null || !each.isConnected
      ? null
      : { decisions: each.decisions, p50_ms: each.decisionP50Ms, p99_ms: each.decisionP99Ms },
});
