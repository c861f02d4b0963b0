import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { unreachable } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseLeaseCall } from '../../shared/wire/sync/lease-call.ts';
import type { BaseDeps } from '../base/deps.ts';
import { quotaLimits } from '../book/limits.ts';
import { callerOf } from '../http/caller.ts';
import { fairShare } from '../storage/fair-share.ts';
import { refuse, refuseSupersededConnection, refuseUnknownConnection } from '../sync/refuse.ts';
import { serveLeaseCall } from './serve-lease-call.ts';

/**
 * Endpoint for sidecars to draw on the quota ledger. Not a public interface; shared/wire/sync/lease-call.ts
 * documents the answers.
 *
 * Calls wait for each other at a window that many draw on, such as that of the root of a tree of wallets. So
 * they have a share of the connections, each account a part of it, and the wait for a turn is bounded as the
 * one for a lock is: a call that waited for too long is refused with `overloaded`, and has moved nothing.
 */
export function leaseRoutes(
  deps: Pick<BaseDeps, 'sql' | 'clock' | 'logger' | 'shares'>,
): FastifyPluginAsyncTypebox {
  const share = fairShare<AccountId>({
    ...deps.shares.leaseCalls,
    waitingPerOwnerMax: quotaLimits.leaseCallsWaitingPerAccountMax,
    waitMsMax: quotaLimits.leaseTurnMsMax,
  });
  return async (app) => {
    app.post(
      '/sync/leases',
      { config: { scope: 'sidecars:connect' }, bodyLimit: limits.leaseCallBytesMax },
      async (request, reply) => {
        const call = parseLeaseCall(request.body);
        const { accountId } = callerOf(request);
        const outcome = await share(accountId, () =>
          serveLeaseCall(deps.sql, accountId, call, deps.clock.now()),
        );
        switch (outcome.kind) {
          case 'answered':
            return outcome.answer;
          case 'superseded':
            return refuseSupersededConnection(reply);
          case 'unknown':
            return refuseUnknownConnection(reply);
          case 'holder_unknown':
            deps.logger.warn({ sidecar_id: call.sidecar_id, seq: call.seq }, 'a sidecar drops its leases');
            return refuse(
              reply,
              409,
              'holder_unknown',
              'No leases of this holder are on record, or none any more.',
            );
          default:
            return unreachable(outcome);
        }
      },
    );
  };
}
