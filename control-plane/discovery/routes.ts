import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { DiscoveryAnswer, DiscoveryQuery } from '../../shared/wire/discovery.ts';
import type { DiscoveryDeps } from './deps.ts';
import { discoverGates } from './find-offers.ts';

/** Which gates offer a capability, and at what price (contract §10): for every agent, without a key. */
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
