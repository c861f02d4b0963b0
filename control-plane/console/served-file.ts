import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isKnownTo } from '../http/entity-tag.ts';

/** One file of the built console, as it is sent. */
interface ServedFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
  readonly etag: string;
}

/**
 * By path below the folder of the build, such as `assets/main-Dx3f.js` or `guide/keys.html`. Nothing else is
 * served.
 */
export type ConsoleFiles = ReadonlyMap<string, ServedFile>;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
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

/** Headers of every answer here: nothing is framed, sniffed or told to other sites. */
export const safeHeaders = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  vary: 'Accept-Encoding',
};

/** Sends the file, compressed where the client takes that, or 304 where it has it already. */
export function sendFile(request: FastifyRequest, reply: FastifyReply, file: ServedFile): FastifyReply {
  reply.headers({ etag: file.etag, 'content-type': file.type });
  if (isKnownTo(request.headers['if-none-match'], file.etag)) return reply.code(304).send();
  const isGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  if (isGzip) reply.header('content-encoding', 'gzip');
  return reply.send(isGzip ? file.gzipped : file.bytes);
}
