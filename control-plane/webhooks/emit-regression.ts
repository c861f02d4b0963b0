import type { AccountId } from '../../shared/model/ids.ts';
import { modes } from '../../shared/model/mode.ts';
import { readGenerations } from '../history/history-store.ts';
import type { OnRegressed } from '../history/take-report.ts';
import type { WebhookDeps } from './deps.ts';
import { emitEvents } from './emit-events.ts';

/** Tells the operator's endpoints of both modes that history went back (contract §17). */
export const regressionEmitter =
  (deps: Pick<WebhookDeps, 'random' | 'clock'>): OnRegressed =>
  async (tx, missing) => {
    const { current: generation } = await readGenerations(tx);
    const operators = await tx<{ accountId: AccountId }[]>`
      SELECT account_id AS "accountId" FROM accounts WHERE is_operator`;
    await emitEvents(tx, deps, [
      {
        event: 'history.regressed',
        to: operators.flatMap(({ accountId }) => modes.map((mode) => ({ accountId, mode }))),
        data: { generation, missing },
        timestampMs: deps.clock.now(),
      },
    ]);
  };
