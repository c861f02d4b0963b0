import type { IncomingMessage, ServerResponse } from 'node:http';
import type { JsonObject } from '../shared/crypto/json-object.ts';
import { answeredHeaders } from './http-headers.ts';
import { UpstreamError } from './upstream.ts';

/**
 * How a client reads this answer: some look for the type anywhere in the header. `other`: as no message.
 * Throws UpstreamError where two could read it differently.
 */
export function kindOf({ headersDistinct }: IncomingMessage): 'stream' | 'json' | 'other' {
  const types = headersDistinct['content-type'] ?? [];
  const [type = ''] = types;
  const isStream = /event-stream/i.test(type);
  const isJson = /json/i.test(type);
  if (types.length > 1 || (isStream && isJson)) {
    throw new UpstreamError(502, 'The MCP server answers with two Content-Types.');
  }
  return isStream ? 'stream' : isJson ? 'json' : 'other';
}

export function refuseCompressed({ headers }: IncomingMessage): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() === 'identity') return;
  throw new UpstreamError(502, 'The MCP server compresses its answer, although it was asked not to.');
}

export async function readAnswer(answer: IncomingMessage, take: (bytes: number) => void): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk);
    take(chunk.length);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Answers of the server and of the proxy, to one batch. */
export function withOwn(toClient: string | null, own: readonly JsonObject[]): string {
  if (own.length === 0) return toClient ?? '';
  const theirs: unknown = toClient === null ? [] : JSON.parse(toClient);
  return JSON.stringify([...(Array.isArray(theirs) ? theirs : [theirs]), ...own]);
}

/** The server's status and headers, with this body in place of its own. Not its words for the status. */
export function sendRest(response: ServerResponse, answer: IncomingMessage, body: string): void {
  const headers = answeredHeaders(answer, (name) => name === 'content-length' || name === 'content-type');
  const { statusCode: status = 502 } = answer;
  if (body !== '') headers.push('Content-Type', 'application/json');
  // RFC 9110 §8.6
  if (status !== 204 && status !== 304) headers.push('Content-Length', String(Buffer.byteLength(body)));
  response.writeHead(status, headers);
  response.end(body);
}

export const eventOf = (message: JsonObject): string =>
  `event: message\ndata: ${JSON.stringify(message)}\n\n`;

export const sendJson = (response: ServerResponse, status: number, message: unknown): void =>
  sendText(response, status, JSON.stringify(message));

export function sendText(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}
