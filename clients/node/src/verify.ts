/** Offline verifiers for Node.js and browsers (over HTTPS or on localhost). */
export { type AnswerVerdict, verifyAnswer } from './verify/answer.ts';
export { type AttestationsVerdict, type ExportBytes, verifyAttestations } from './verify/attestations.ts';
export {
  type CatalogVerdict,
  catalogFaults,
  type DiscoveryVerdict,
  discoveryFaults,
  verifyCatalog,
  verifyDiscoveryResult,
} from './verify/catalog.ts';
export {
  type LogProofOptions,
  type LogProofVerdict,
  logProofFaults,
  verifyLogProof,
} from './verify/log-proof.ts';
export {
  type ReceiptOptions,
  type ReceiptStatement,
  type ReceiptVerdict,
  receiptFaults,
  verifyReceipt,
} from './verify/receipt.ts';
export {
  verifyWebhook,
  type WebhookHeaders,
  type WebhookOptions,
  type WebhookVerdict,
  webhookFaults,
} from './verify/webhook.ts';
