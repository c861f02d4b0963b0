import type { FastifyInstance } from 'fastify';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { isIdentity, singleHeaders } from '../../shared/wire/api/request-headers.ts';

/** Runs before other readers of headers: of two headers node:http silently uses one. */
export function installSingleHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ is404, raw: { rawHeaders } }) => {
    const seen = new Set<string>();
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = (rawHeaders[index] ?? '').toLowerCase();
      if (!singleHeaders.includes(name) || (is404 && name !== 'host')) continue;
      if (seen.has(name)) throw invalidRequest(name, `Send the header ${name} once.`);
      seen.add(name);
    }
  });
}

/** After authentication and before the body. Compressed bodies are not supported. */
export function installContentEncoding(app: FastifyInstance): void {
  app.addHook('onRequest', async ({ method, headers }) => {
    const isRead = method === 'GET' || method === 'HEAD';
    if (!isRead && !isIdentity(headers['content-encoding'] ?? ''))
      throw new ApiError('unsupported_media_type');
  });
}
