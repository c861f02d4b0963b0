/** Room `control-plane/console`: serves the built console at `/console`. */

import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';

/** One file of the built console, as it is sent. */
interface ServedFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
  readonly etag: string;
}

/** By path below `/console/`, such as `assets/main-Dx3f.js`. Nothing else is served. */
export type ConsoleFiles = ReadonlyMap<string, ServedFile>;

export interface ConsoleDeps {
  readonly consoleFiles: ConsoleFiles;
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const compress = promisify(gzip);

/**
 * Reads the built console once, so that no request touches the file system. Files of other types, such as the
 * build's manifest, are left out. An empty map: not built.
 */
export async function readConsole(folder: string): Promise<ConsoleFiles> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const files = names.flatMap((name) => {
    const type = types[extname(name)];
    return type === undefined ? [] : [{ name, type }];
  });
  return new Map(
    await Promise.all(
      files.map(async ({ name, type }): Promise<[string, ServedFile]> => {
        const bytes = await readFile(join(folder, name));
        const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`;
        return [name, { type, bytes, gzipped: await compress(bytes, { level: 9 }), etag }];
      }),
    ),
  );
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

const headers = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  vary: 'Accept-Encoding',
};

/** The names of these files contain a hash of their content. */
const hashed = /^assets\//;

/**
 * `GET /console` and below: the files of the console, and its page for every other address, because the
 * console routes by itself.
 */
export function consoleRoutes(files: ConsoleFiles): FastifyPluginAsync {
  const send = (request: FastifyRequest, reply: FastifyReply, name: string): FastifyReply => {
    const isFile = hashed.test(name) || extname(name) !== '';
    const file = files.get(isFile ? name : 'index.html');
    if (file === undefined) {
      throw new ApiError('route_not_found', {
        message: files.size === 0 ? 'The console is not built here: run "npm run build".' : 'No such file.',
      });
    }
    reply.headers({
      ...headers,
      etag: file.etag,
      'content-type': file.type,
      'cache-control': hashed.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache',
    });
    if (request.headers['if-none-match'] === file.etag) return reply.code(304).send();
    const isGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
    if (isGzip) reply.header('content-encoding', 'gzip');
    return reply.send(isGzip ? file.gzipped : file.bytes);
  };
  const options = { config: { scope: null }, schema: { hide: true } } as const;
  return async (app) => {
    app.get('/console', options, (_request, reply) => reply.redirect('/console/', 308));
    app.get<{ Params: { '*': string } }>('/console/*', options, (request, reply) =>
      send(request, reply, request.params['*']),
    );
  };
}
