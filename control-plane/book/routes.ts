import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { BalanceAnswer } from '../../shared/wire/sync/balance.ts';
import type { BaseDeps } from '../base/deps.ts';
import { findImbalances } from './balance.ts';

/** The doctor shows a few, and says how many there are. */
const windowsShownMax = 20;

/** Of all accounts, so for the operator. */
export function bookRoutes({ sql, clock }: Pick<BaseDeps, 'sql' | 'clock'>): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/sync/leases/balance',
      { config: { scope: 'admin:*', operatorOnly: true }, schema: { response: { 200: BalanceAnswer } } },
      async () => {
        const { total, windows } = await findImbalances(sql, clock.now(), windowsShownMax);
        return {
          total,
          windows: windows.map(({ startsAtMs, ...each }) => ({ ...each, starts_at_ms: startsAtMs })),
        };
      },
    );
  };
}
