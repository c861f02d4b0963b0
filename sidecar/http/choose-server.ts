import { limits } from '../../shared/model/limits.ts';
import { nodeServer } from './node-server.ts';
import type { ServerPort } from './server.ts';

/**
 * The server that SIDECAR_HTTP asks for: `uws` is uWebSockets.js where its binary loads, else `node:http`;
 * the answer says which, and why.
 *
 * The addon reads its limit for header blocks from the environment once, while it loads: therefore the
 * variable is set here, just before the import. `environment` is the composition root's `process.env` itself,
 * since only assigning to that reaches native code. A worker thread has a copy, which does not, so the main
 * thread calls this before it starts any.
 */
export async function chooseServer(
  environment: NodeJS.ProcessEnv,
  wanted: 'uws' | 'node',
): Promise<ServerPort> {
  if (wanted === 'node') return nodeServer(null);
  environment['UWS_HTTP_MAX_HEADERS_SIZE'] = String(limits.headerBytesMax);
  try {
    const { uwsServer } = await import('./uws-server.ts');
    return uwsServer;
  } catch (error) {
    return nodeServer(`uWebSockets.js does not load here: ${firstLine(error)}`);
  }
}

const firstLine = (error: unknown): string =>
  String(error instanceof Error ? error.message : error).split('\n', 1)[0] ?? '';
