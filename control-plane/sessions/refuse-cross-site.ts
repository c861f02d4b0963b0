import type { IncomingHttpHeaders } from 'node:http';
import { ApiError } from '../../shared/errors/api-error.ts';

const header = 'x-agent-trust-console';

/**
 * Browsers send our cookie for any page, so a change must prove that the page is ours: by a header of our
 * own, which no form and no page of another origin can send (there is no CORS), and by the page's origin as
 * the browser states it. `Sec-Fetch-Site` counts where there is one, and `Origin` where a browser is too old
 * to send it. `SameSite=Strict` is a third line; it alone would let other ports and subdomains through, which
 * are the same site.
 *
 * Throws `cross_site_request`.
 */
export function refuseCrossSite(headers: IncomingHttpHeaders, origin: string): void {
  if (headers[header] !== '1') throw new ApiError('cross_site_request');
  const site = headers['sec-fetch-site'];
  const isOurs = site === undefined ? headers.origin === origin : site === 'same-origin';
  if (!isOurs) throw new ApiError('cross_site_request');
}

/** Methods that change nothing here. */
export const isReading = (method: string): boolean => method === 'GET' || method === 'HEAD';
