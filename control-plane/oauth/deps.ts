import type { BaseDeps } from '../base/deps.ts';
import type { WebhookDeps } from '../webhooks/deps.ts';

export interface OAuthDeps extends BaseDeps, Pick<WebhookDeps, 'outbound'> {}
