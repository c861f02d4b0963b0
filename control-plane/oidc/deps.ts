import type { PeopleDeps } from '../people/deps.ts';
import type { IdentityProvider } from './identity-provider.ts';

export interface OidcDeps extends PeopleDeps {
  /** OIDC_ISSUER (docs/people.md); null: there is none, and people log in with what they have here. */
  readonly identityProvider: IdentityProvider | null;
}
