import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { renderTime } from '../../shared/model/time.ts';
import { SidecarListAnswer } from '../../shared/wire/sidecar.ts';
import type { BaseDeps } from '../base/deps.ts';
import { callerOf } from '../http/caller.ts';
import { listSidecars } from './sidecar-store.ts';

const config = { scope: 'gates:read' } as const;

/** The sidecars of the caller's account, which serve both modes. */
export function sidecarRoutes({ sql }: Pick<BaseDeps, 'sql'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get('/sidecars', { config, schema: { response: { 200: SidecarListAnswer } } }, async (request) => {
      const sidecars = await listSidecars(sql, callerOf(request).accountId);
      return {
        items: sidecars.map((each) => ({
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
        })),
      };
    });
  };
}
