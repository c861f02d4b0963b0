import { type ApiError, renderError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { Reply } from '../http/server.ts';

/** Every answer names its request (contract §12). */
const requestIdHeader = 'x-request-id';

export const jsonReply = (status: number, body: string, requestId: RequestId): Reply => ({
  status,
  body,
  headers: [[requestIdHeader, requestId]],
});

export const textReply = (body: string, contentType: string, requestId: RequestId): Reply => ({
  status: 200,
  body,
  contentType,
  headers: [[requestIdHeader, requestId]],
});

export function errorReply(error: ApiError, requestId: RequestId): Reply {
  const headers: [string, string][] = [
    [requestIdHeader, requestId],
    ['cache-control', 'no-store'],
  ];
  // RFC 9110 §11.6.1: who answers 401 says how to authenticate.
  if (error.status === 401) headers.push(['www-authenticate', 'Bearer realm="agent-trust"']);
  if (error.retryAfterS !== null) headers.push(['retry-after', `${error.retryAfterS}`]);
  return { status: error.status, body: JSON.stringify(renderError(error, requestId)), headers };
}
