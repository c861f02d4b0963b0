import type { WebhookDeps } from '../webhooks/deps.ts';
import type { Mailer } from './mailer.ts';

export interface ChannelDeps extends WebhookDeps {
  /** Null: SMTP_URL is not set, and channels of the kind `email` are refused. */
  readonly mailer: Mailer | null;
}
