import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseJsonText, readJsonText } from '../../shared/wire/api/json.ts';

/**
 * Bodies are JSON (RFC 8259, UTF-8) of at most `bodyLimit` bytes, which a route may raise. A longer one is
 * read and discarded up to `limits.bodyDiscardBytesMax`, so that its sender gets the 400 instead of a broken
 * connection; beyond that the connection is closed after the answer. No body counts as `{}`: validation names
 * each missing field.
 */
export function installJsonBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(['application/json', 'application/merge-patch+json'], readJson);
  app.addHook('preValidation', async (request) => {
    if (request.body === undefined) request.body = {};
  });
}

/** Reads the body as JSON, whatever its Content-Type says. */
export const readJson = jsonReader(parseJsonText);

/** The same without checks, for a body whose parts are checked one by one. */
export const readUncheckedJson = jsonReader(readJsonText);

/** Reads bodies with `parse`, which is not called for an empty one. */
export function jsonReader(parse: (text: string) => unknown) {
  return async (request: FastifyRequest, payload: IncomingMessage): Promise<unknown> => {
    const bytes = await readBody(payload, request.routeOptions.bodyLimit ?? limits.bodyBytesMax);
    return bytes.length === 0 ? undefined : parse(decodeUtf8(bytes));
  };
}

/** Keeps the byte order mark, which JSON then refuses like any other character before the value. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new ApiError('invalid_json', { message: 'The body is not valid UTF-8.', cause });
  }
}

/** Throws public errors, even if the connection breaks off, which is not an internal error. */
export function readBody(payload: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const discardMax = Math.max(bytesMax, limits.bodyDiscardBytesMax);
  const tooLarge = () =>
    new ApiError('body_too_large', { message: `The body must be at most ${bytesMax} bytes.` });
  if (Number(payload.headers['content-length'] ?? 0) > discardMax) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let length = 0;
    const finish = (outcome: () => void): void => {
      payload.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken);
      outcome();
    };
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      if (length <= bytesMax) chunks.push(chunk);
      else chunks = [];
      if (length > discardMax) finish(() => reject(tooLarge()));
    };
    const onEnd = (): void =>
      finish(() => (length > bytesMax ? reject(tooLarge()) : resolve(Buffer.concat(chunks, length))));
    const onBroken = (): void => finish(() => reject(invalidRequest('body', 'The body ended too early.')));
    payload.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  });
}
