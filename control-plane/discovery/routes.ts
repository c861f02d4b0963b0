import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { DiscoveryAnswer, DiscoveryQuery, renderOffer } from '../../shared/wire/discovery.ts';
import type { Deps } from '../deps.ts';
import { findOffers } from './find-offers.ts';

/** Which gates offer a capability, and at what price (decisions §10): for every agent, without a key. */
export function discoveryRoutes(deps: Deps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/discover',
      {
        config: { scope: null },
        schema: { querystring: DiscoveryQuery, response: { 200: DiscoveryAnswer } },
      },
      async ({ query }) => {
        const { offers, total } = await findOffers(deps.sql, query);
        return { results: offers.map(renderOffer), total, query };
      },
    );
  };
}
