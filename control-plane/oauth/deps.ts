import type { Scope } from '../../shared/model/scopes.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { WebhookDeps } from '../webhooks/deps.ts';

export interface OAuthDeps extends BaseDeps, Pick<WebhookDeps, 'outbound'> {
  /**
   * What a token needs for the tools, whose room is above this one: a client gets them where it asks for none
   * by name (contract §13).
   */
  readonly offeredScopes: readonly Scope[];
}
