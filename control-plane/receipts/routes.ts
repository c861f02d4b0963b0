import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ReceiptReport, ReceiptShowing } from '../../shared/wire/decision-receipt.ts';
import type { OnRegressed } from '../history/take-report.ts';
import { callerOf } from '../http/caller.ts';
import { ReceiptLines } from './receipt-lines.ts';
import { type ReceiptDeps, takeReceipt } from './take-receipt.ts';

/** `POST /receipts`: a client shows what it was answered. */
export function receiptRoutes(deps: ReceiptDeps, onRegressed: OnRegressed): FastifyPluginAsyncTypebox {
  const lines = new ReceiptLines(deps.clock);
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
