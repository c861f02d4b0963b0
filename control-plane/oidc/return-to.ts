import { invalidRequest } from '../../shared/errors/api-error.ts';
import { oidcLimits } from './limits.ts';

const consolePath = /^\/console(?:\/|$)/;

/**
 * Where a browser goes after its login, as path, query and fragment of this origin, below `/console`. It is
 * read as a browser reads it, so that no spelling (`//host`, `/\host`, dot segments) leads elsewhere. Throws
 * `invalid_request`.
 */
export function parseReturnTo(text: string, origin: string): string {
  const url = URL.canParse(text, origin) ? new URL(text, origin) : null;
  const isOurs = url !== null && url.origin === origin && consolePath.test(url.pathname);
  const path = isOurs ? `${url.pathname}${url.search}${url.hash}` : null;
  if (path === null || !text.startsWith('/') || path.length > oidcLimits.returnToCharsMax) {
    throw invalidRequest(
      'return_to',
      `return_to must be a path below /console of at most ${oidcLimits.returnToCharsMax} characters.`,
    );
  }
  return path;
}
