import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { DiscoveryAnswer, DiscoveryQuery } from '../../shared/wire/api/discovery.ts';
import { errorsOfPublicReads, operationsOf } from '../http/operation.ts';
import type { DiscoveryDeps } from './deps.ts';
import { discoverGates } from './find-offers.ts';

const api = operationsOf('Discovery', {
  discoverGates: {
    scope: null,
    summary: 'Find gates by a capability, with their prices',
    description:
      'A capability is a permission key, a bare area (`orders`) or a category. Each result carries the hash, signature and key id of its ' +
      'catalog, so that it can be verified without trust in this service. `offset` reaches the first 1,000; `next_cursor` leads on ' +
      'from any page. Searches share a small part of the service: 503 `overloaded` says to try again in a moment.',
    errors: errorsOfPublicReads,
  },
});

/** Gates that offer a capability, with prices (contract §10): public, without a key. */
export function discoveryRoutes(deps: DiscoveryDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/discover',
      {
        config: api.discoverGates,
        schema: { querystring: DiscoveryQuery, response: { 200: DiscoveryAnswer } },
      },
      async ({ query }) => discoverGates(deps, query),
    );
  };
}
