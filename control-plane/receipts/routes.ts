import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ReceiptReport, ReceiptShowing } from '../../shared/wire/decision-receipt.ts';
import type { OnRegressed } from '../history/take-report.ts';
import { type ReceiptDeps, takeReceipt } from './take-receipt.ts';

/** `POST /receipts`: a client shows what it was answered. */
export function receiptRoutes(deps: ReceiptDeps, onRegressed: OnRegressed): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/receipts',
      {
        config: { scope: 'attestations:read' },
        schema: { body: ReceiptShowing, response: { 200: ReceiptReport } },
      },
      async (request) => takeReceipt(deps, request.body.receipt, onRegressed),
    );
  };
}
