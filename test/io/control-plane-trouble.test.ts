import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { SidecarId } from '../../shared/model/ids.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { ControlPlaneClient } from '../../sidecar/replica/control-plane-client.ts';
import { testCa } from '../support/base/certificates.ts';
import { freePort } from '../support/base/free-port.ts';
import { type ListeningServer, listening } from '../support/base/listening.ts';
import { useFolder } from '../support/base/use.ts';
import { sharedService } from '../support/run/shared-services.ts';

const servers: ListeningServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function portOf(server: Server): Promise<number> {
  const started = await listening(server);
  servers.push(started);
  return started.port;
}

/** What a sidecar says of the control plane at this origin. */
async function problemAt(origin: string): Promise<string> {
  const client = new ControlPlaneClient({
    origin,
    apiKey: 'at_live_of_a_test',
    sidecarId: `side_${'0'.repeat(26)}` as SidecarId,
    clock: systemClock,
    logger: silentLogger,
  });
  try {
    return await client.connect().then(
      () => 'none',
      (error: Error) => error.message,
    );
  } finally {
    await client.close();
  }
}

type Respond = (request: IncomingMessage, response: ServerResponse) => void;
const answers = async (respond: Respond) =>
  problemAt(`http://127.0.0.1:${await portOf(createServer(respond))}`);

const page = '<!DOCTYPE html><html><body>Sign in to the network</body></html>';
const send =
  (status: number, body: string, headers: Record<string, string> = {}): Respond =>
  (_request, response) => {
    response.writeHead(status, headers).end(body);
  };

describe('what stands between a sidecar and its control plane', () => {
  it.each([
    ['an HTML page', send(200, page), /An HTML page: .* web server, a login page or a proxy/],
    ['JSON of another service', send(200, '{"status":"ok"}'), /Something that is not agent-trust answers/],
    ['nothing at all', send(200, ''), /Something that is not agent-trust answers/],
    [
      'a redirect',
      send(301, page, { location: 'https://trust.example.com/v1/sync/connect?token=secret' }),
      /redirects to https:\/\/trust\.example\.com\/v1\/sync\/connect: set it/,
    ],
    [
      'a relative redirect',
      send(302, '', { location: '/login' }),
      /redirects to http:\/\/127\.0\.0\.1:\d+\/login/,
    ],
    ['a redirect to nowhere', send(308, ''), /redirects to nowhere/],
    ['a wrong path', send(404, page), /Nothing of agent-trust is at that address/],
    ['a proxy that wants credentials', send(407, ''), /A proxy in between wants its own authentication/],
    ['a gateway that wants credentials', send(401, page), /It is not agent-trust that refuses/],
    ['a proxy with nobody behind it', send(502, page), /A proxy in between answers/],
    ['a proxy that limits bodies', send(413, page), /limits the length of bodies/],
  ])('is named: %s', async (_what, respond, problem) => {
    const said = await answers(respond);
    expect(said).toMatch(problem);
    expect(said).not.toMatch(/secret|Sign in|undefined/);
  });

  it('is the answer of agent-trust itself where it is one', async () => {
    const body = JSON.stringify({
      error: { code: 'unauthorized', message: 'Who?', status: 401, request_id: 'r' },
    });
    expect(await answers(send(401, body))).toBe('connect: the control plane answered 401 unauthorized: Who?');
  });

  it('is named: connection refused', async () => {
    expect(await problemAt(`http://127.0.0.1:${await freePort()}`)).toMatch(
      /Nothing listens at that address/,
    );
  });

  it('is named: a host that does not exist', async () => {
    expect(await problemAt('http://no-such-host.invalid:8080')).toMatch(/\(DNS\)/);
  });

  it('is named: one that hangs up', async () => {
    const port = await portOf(createTcpServer((socket) => socket.destroy()));
    expect(await problemAt(`http://127.0.0.1:${port}`)).toMatch(/closed the connection: it may want TLS/);
  });

  it('is named: no TLS where it was asked for', async () => {
    const port = await portOf(createServer(send(200, '{}')));
    expect(await problemAt(`https://127.0.0.1:${port}`)).toMatch(/does not speak TLS there/);
  });
});

describe('the certificate of a control plane', () => {
  const folder = useFolder();

  it('by an unknown CA is named with the setting that names one', async () => {
    await sharedService('openssl');
    const { cert, key } = testCa(folder.path).issue('IP:127.0.0.1');
    const options = { cert: readFileSync(cert), key: readFileSync(key) };
    const port = await portOf(createTlsServer(options, send(200, '{}')));
    expect(await problemAt(`https://127.0.0.1:${port}`)).toMatch(
      /does not know the CA of its certificate: name its file in NODE_EXTRA_CA_CERTS/,
    );
  });
});
