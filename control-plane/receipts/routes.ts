import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { AccountId } from '../../shared/model/ids.ts';
import { ReceiptReport, ReceiptShowing } from '../../shared/wire/evidence/decision-receipt.ts';
import type { OnRegressed } from '../history/take-report.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds } from '../http/example-ids.ts';
import { LineBudget } from '../http/line-budget.ts';
import { operationsOf } from '../http/operation.ts';
import { type ReceiptDeps, receiptLines, takeReceipt } from './take-receipt.ts';

const api = operationsOf('Audit', {
  showReceipt: {
    scope: 'attestations:read',
    summary: 'Show a receipt',
    description:
      'Answers whether the record is here as the receipt says. Where the database went back behind what the sidecar had been told, the service ' +
      'notices it. See docs/receipts.md.',
    examples: { shown: { value: { receipt: exampleIds.receipt } } },
  },
});

/** `POST /receipts`: a client shows what it was answered. */
export function receiptRoutes(deps: ReceiptDeps, onRegressed: OnRegressed): FastifyPluginAsyncTypebox {
  const lines = new LineBudget<AccountId>(deps.clock, receiptLines);
  return async (app) => {
    app.post(
      '/receipts',
      { config: api.showReceipt, schema: { body: ReceiptShowing, response: { 200: ReceiptReport } } },
      async (request) => {
        const shown = { receipt: request.body.receipt, shownBy: callerOf(request).accountId };
        return takeReceipt({ ...deps, lines }, shown, onRegressed);
      },
    );
  };
}
