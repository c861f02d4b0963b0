import type { FastifyInstance, FastifyReply } from 'fastify';
import {
  speaksSyncVersion,
  syncVersion,
  syncVersionHeader,
  syncVersionUnsupported,
} from '../../shared/wire/sync/sync.ts';
import { refuse } from './refuse.ts';

/** Refuses calls of sidecars of a version that this control plane does not speak, before anything is done. */
export function installSyncVersion(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ headers, routeOptions }, reply) => {
    if (routeOptions.config.scope !== 'sidecars:connect') return undefined;
    return speaksSyncVersion(headers[syncVersionHeader]) ? undefined : refuseSyncVersion(reply);
  });
}

export const refuseSyncVersion = (reply: FastifyReply): FastifyReply =>
  refuse(
    reply,
    400,
    syncVersionUnsupported,
    `This control plane speaks version ${syncVersion} with sidecars, and not that of this one. Upgrade the older of the two programs.`,
    { speaks: [syncVersion] },
  );
