/**
 * Room `control-plane/console`: serves the built console at `/console`, and the guide that is built with it
 * at `/docs/guide`.
 */

import { extname } from 'node:path';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import { type ConsoleFiles, safeHeaders, sendFile } from './served-file.ts';

export interface ConsoleDeps {
  readonly consoleFiles: ConsoleFiles;
}

/**
 * No external resources, no inline scripts, no framing, and no text as markup (Trusted Types without a
 * policy).
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** The names of these files contain a hash of their content. */
const hashed = /^assets\//;
/** These have an address of their own, and another policy. */
const ofGuide = /^guide\//;

/**
 * `GET /console` and below: the files of the console, and its page for every other address, because the
 * console routes by itself.
 */
export function consoleRoutes(files: ConsoleFiles): FastifyPluginAsync {
  const send = (request: FastifyRequest, reply: FastifyReply, name: string): FastifyReply => {
    const isFile = hashed.test(name) || extname(name) !== '';
    const file = ofGuide.test(name) ? undefined : files.get(isFile ? name : 'index.html');
    if (file === undefined) {
      throw new ApiError('route_not_found', {
        message: files.size === 0 ? 'The console is not built here: run "npm run build".' : 'No such file.',
      });
    }
    reply.headers({
      ...safeHeaders,
      'content-security-policy': policy,
      'cache-control': hashed.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache',
    });
    return sendFile(request, reply, file);
  };
  const options = { config: { scope: null }, schema: { hide: true } } as const;
  return async (app) => {
    app.get('/console', options, (_request, reply) => reply.redirect('/console/', 308));
    app.get<{ Params: { '*': string } }>('/console/*', options, (request, reply) =>
      send(request, reply, request.params['*']),
    );
  };
}
