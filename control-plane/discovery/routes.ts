import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { DiscoveryAnswer, DiscoveryQuery } from '../../shared/wire/discovery.ts';
import type { DiscoveryDeps } from './deps.ts';
import { discoverGates } from './find-offers.ts';

/** Gates that offer a capability, with prices (contract §10): public, without a key. */
export function discoveryRoutes(deps: DiscoveryDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/discover',
      {
        config: { scope: null },
        schema: { querystring: DiscoveryQuery, response: { 200: DiscoveryAnswer } },
      },
      async ({ query }) => discoverGates(deps, query),
    );
  };
}
