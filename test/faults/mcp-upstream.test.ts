import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { Upstream, UpstreamError } from '../../mcp-proxy/upstream.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { listening } from '../support/base/listening.ts';

/** What an MCP server with these bytes is taken for; a second would not pass if it were waited for. */
async function answerTo(bytes: string): Promise<number | UpstreamError> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.write(bytes));
  });
  const { origin, close } = await listening(server);
  const upstream = new Upstream(new URL(`${origin}/mcp`), { answerMsMax: 60_000, logger: silentLogger });
  const { signal } = new AbortController();
  const asked = { method: 'POST', headers: ['host', 'x'], body: null, signal, search: '' };
  const answer = await upstream.send(asked).catch((error: UpstreamError) => error);
  upstream.close();
  await close();
  return answer instanceof UpstreamError ? answer : (answer.statusCode ?? 0);
}

it.each([
  'HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  'HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n',
])('takes %j, for which nobody has asked, for a fault of the server at once', async (bytes) => {
  const error = await answerTo(bytes);
  expect(error).toMatchObject({
    status: 502,
    message: expect.stringMatching(/answers (?:101|600), for which/),
  });
});

it.each([100, 102, 103, 199])('passes over %i', async (status) => {
  const bytes = `HTTP/1.1 ${status} Odd\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n`;
  expect(await answerTo(bytes)).toBe(200);
});
