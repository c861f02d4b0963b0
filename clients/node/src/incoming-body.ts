import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The body of a request, as far as a guard knows the handler's input. */
export type IncomingBody =
  | { readonly kind: 'none' }
  /** Bytes, text or a JSON value: the whole body as the handler sees it. */
  | { readonly kind: 'read'; readonly value: unknown }
  /** It is still in the stream, or was read into something that has no digest. */
  | { readonly kind: 'unread' };

/**
 * Of a request of node:http and what its framework has parsed. The stream must be at its end, because in
 * Express 4 and others `body` may be set for an unread request.
 */
export function bodyOf(request: IncomingMessage, parsed: unknown): IncomingBody {
  const isNothing = parsed === undefined || parsed === null || isEmptyObject(parsed);
  if (!announcesBody(request)) return isNothing ? { kind: 'none' } : { kind: 'read', value: parsed };
  if (parsed === undefined || !request.readableEnded) return { kind: 'unread' };
  const type = request.headers['content-type'] ?? '';
  // Files are put elsewhere, and only the fields into the body.
  const isWhole = isBytes(parsed) || typeof parsed === 'string' || !/^\s*multipart\//i.test(type);
  // Set by Express 4 without a parser.
  const isParsed = !isEmptyObject(parsed) || /[/+]json\s*(?:;|$)/i.test(type);
  return isWhole && isParsed ? { kind: 'read', value: parsed } : { kind: 'unread' };
}

/** Whether bytes follow the head of the request, whatever its method and Content-Type are. */
function announcesBody(request: IncomingMessage): boolean {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined) return true;
  const length = headers['content-length'];
  if (length !== undefined) return Number(length) !== 0;
  // HTTP/2 needs neither header.
  const { stream } = request as { stream?: { endAfterHeaders?: boolean } };
  return stream?.endAfterHeaders === false;
}

/**
 * SHA-256 of bytes and text as they are, of a JSON value as JSON in the order in which it was sent. Null for
 * what JSON does not show whole, such as a stream, a form or NaN.
 */
export function digestOf(body: unknown): string | null {
  const bytes = typeof body === 'string' || isBytes(body) ? body : textOf(body);
  return bytes === null ? null : createHash('sha256').update(bytes).digest('hex');
}

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;

function textOf(value: unknown): string | null {
  try {
    return isJsonData(value) ? JSON.stringify(value) : null;
  } catch {
    // Nested too deep for it.
    return null;
  }
}

/** Whether JSON shows all of it. Not recursive: an agent may nest as deep as its body is long. */
function isJsonData(root: unknown): boolean {
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    switch (typeof value) {
      case 'string':
      case 'boolean':
        break;
      case 'number':
        if (!Number.isFinite(value)) return false;
        break;
      case 'object':
        if (value === null) break;
        if (!Array.isArray(value) && !isPlain(value)) return false;
        for (const member of Object.values(value)) if (member !== undefined) open.push(member);
        break;
      default:
        return false;
    }
  }
  return true;
}

/** As literals have it, of another realm too, and as parsers of queries make objects without a prototype. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isBare = prototype === null || Object.getPrototypeOf(prototype) === null;
  return isBare && typeof (value as { toJSON?: unknown }).toJSON !== 'function';
}

const isEmptyObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && isPlain(value) && Object.keys(value).length === 0;
