import type { AccountId, IssuerId, PassportId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { WebhookDeps } from '../webhooks/deps.ts';

export interface OAuthDeps extends BaseDeps, Pick<WebhookDeps, 'outbound'> {
  /**
   * What a token needs for the tools, whose room is above this one: a client gets them where it asks for none
   * by name (contract §13).
   */
  readonly offeredScopes: readonly Scope[];
  /**
   * Verifies an identity assertion of an issuer of others, for a client of that account. Not whether it was
   * used before. Throws `service_unavailable` for one that cannot be judged yet.
   */
  readonly verifyAssertion: (presented: {
    readonly assertion: string;
    readonly clientId: string;
    readonly accountId: AccountId;
    readonly mode: Mode;
    readonly audience: string;
    readonly resource: string;
  }) => Promise<AssertionVerdict>;
}

/** A subject of another issuer, for whom a token is. */
export interface TokenSubject {
  readonly issuerId: IssuerId;
  readonly passportId: PassportId;
  readonly owner: string | null;
}

export type AssertionVerdict =
  | { readonly kind: 'refused'; readonly detail: string }
  | {
      readonly kind: 'verified';
      readonly subject: TokenSubject;
      readonly jti: string;
      readonly expiresAtMs: UnixMillis;
      readonly scope: string | null;
    };
