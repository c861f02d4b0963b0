import { ApiError } from '../../shared/errors/api-error.ts';
import type { PeopleDeps } from '../people/deps.ts';
import { type RelyingParty, relyingPartyOf } from '../people/relying-party.ts';

/** Throws `invalid_request` if browsers support no passkeys for this service's address. */
export function ownRelyingParty({ baseUrl }: Pick<PeopleDeps, 'baseUrl'>): RelyingParty {
  const relyingParty = relyingPartyOf(baseUrl);
  if (relyingParty !== null) return relyingParty;
  throw new ApiError('invalid_request', {
    message: 'Passkeys need a PUBLIC_URL with a host name and https, or localhost. Use a password.',
  });
}
