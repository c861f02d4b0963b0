import { nonceBytes, type Sealer } from '../../shared/crypto/seal.ts';
import {
  makeWebhookSecret,
  readWebhookSecret,
  webhookSecretBytes,
} from '../../shared/crypto/webhook-signature.ts';
import { must } from '../../shared/errors/assert.ts';
import type { WebhookId } from '../../shared/model/ids.ts';
import { textSeal } from '../http/answer-secrets.ts';
import type { WebhookDeps } from './deps.ts';

/** A new secret, in plain text for the answer and in its stored form. */
export interface NewSecret {
  readonly secret: string;
  readonly sealed: string;
}

export function newWebhookSecret(
  { sealer, random }: Pick<WebhookDeps, 'sealer' | 'random'>,
  webhookId: WebhookId,
): NewSecret {
  const secret = makeWebhookSecret(random.bytes(webhookSecretBytes));
  const { seal } = textSeal(sealer, webhookSealContext(webhookId), () => random.bytes(nonceBytes));
  return { secret, sealed: seal(secret) };
}

/** The bytes with which this endpoint's deliveries are signed. Throws SealError. */
export const openWebhookSecret = (sealer: Sealer, webhookId: WebhookId, sealed: string): Uint8Array =>
  must(
    readWebhookSecret(Buffer.from(sealer.open(sealed, webhookSealContext(webhookId))).toString('utf8')),
    'what was sealed as a webhook secret is one',
  );

export const webhookSealContext = (webhookId: WebhookId): string => `webhooks/${webhookId}`;
