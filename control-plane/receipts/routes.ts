import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { AccountId } from '../../shared/model/ids.ts';
import { ReceiptReport, ReceiptShowing } from '../../shared/wire/decision-receipt.ts';
import type { OnRegressed } from '../history/take-report.ts';
import { callerOf } from '../http/caller.ts';
import { LineBudget } from '../http/line-budget.ts';
import { type ReceiptDeps, receiptLines, takeReceipt } from './take-receipt.ts';

/** `POST /receipts`: a client shows what it was answered. */
export function receiptRoutes(deps: ReceiptDeps, onRegressed: OnRegressed): FastifyPluginAsyncTypebox {
  const lines = new LineBudget<AccountId>(deps.clock, receiptLines);
  return async (app) => {
    app.post(
      '/receipts',
      {
        config: { scope: 'attestations:read' },
        schema: { body: ReceiptShowing, response: { 200: ReceiptReport } },
      },
      async (request) => {
        const shown = { receipt: request.body.receipt, shownBy: callerOf(request).accountId };
        return takeReceipt({ ...deps, lines }, shown, onRegressed);
      },
    );
  };
}
