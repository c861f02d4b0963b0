import { once } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { RequestWriter } from '../../shared/crypto/request-writer.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { ApiKeyId, RequestId } from '../../shared/model/ids.ts';
import { momentOf, systemClock } from '../../shared/runtime/clock.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { errorReply } from '../../sidecar/decide/replies.ts';
import { httpLimits } from '../../sidecar/http/limits.ts';
import type {
  RequestHead,
  ServerPort,
  StreamListener,
  StreamSocket,
  Upgrade,
} from '../../sidecar/http/server.ts';
import { handshakeHeaders } from '../../sidecar/intake/stream/handshake.ts';
import { streamLimits } from '../../sidecar/intake/stream/limits.ts';
import { Streams, type StreamsDeps } from '../../sidecar/intake/stream/streams.ts';
import { Turns } from '../../sidecar/intake/turns.ts';
import { turns } from '../support/base/raw-http.ts';
import { until } from '../support/base/until.ts';
import {
  adapters,
  request,
  type ServerUnderTest,
  start,
  stopAll,
} from '../support/peers/server-under-test.ts';

const clients: WebSocket[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const client of clients.splice(0)) client.terminate();
  await stopAll();
});

/** A stream that keeps what it was told, and answers a text with its length. */
class Told implements StreamListener {
  readonly socket: StreamSocket;
  readonly messages: (readonly [text: string, isBinary: boolean])[] = [];
  pings = 0;
  pongs = 0;
  drains = 0;
  closes = 0;

  constructor(socket: StreamSocket) {
    this.socket = socket;
  }

  onMessage(bytes: Buffer, isBinary: boolean): void {
    const text = bytes.toString();
    this.messages.push([text.slice(0, 40), isBinary]);
    if (text === 'throw') throw new Error('thrown by a listener');
    this.socket.send([`${bytes.byteLength}`, 'again']);
  }

  onPing(): void {
    this.pings++;
  }

  onPong(): void {
    this.pongs++;
  }

  onDrain(): void {
    this.drains++;
  }

  onClose(): void {
    this.closes++;
  }
}

interface Opened {
  readonly server: ServerUnderTest;
  readonly streams: Told[];
  readonly statuses: number[];
}

async function startStreams(adapter: ServerPort): Promise<Opened> {
  const streams: Told[] = [];
  const statuses: number[] = [];
  const upgrade: Upgrade = {
    headers: [['x-members', 'one, two']],
    open: (socket) => {
      const stream = new Told(socket);
      streams.push(stream);
      return stream;
    },
  };
  const server = await start(adapter, {
    streamPath: '/stream',
    headerNamesOf: () => ['x-want'],
    onAnswer: (status) => statuses.push(status),
    handler: ({ path, headers }: RequestHead) => {
      if (path === '/stream' && headers[0] !== 'no') return upgrade;
      return { status: path === '/stream' ? 403 : 200, body: '{"served":true}' };
    },
  });
  return { server, streams, statuses };
}

async function connect(server: ServerUnderTest, options = {}): Promise<WebSocket> {
  const client = new WebSocket(`ws://127.0.0.1:${server.port}/stream?a=b`, options);
  clients.push(client);
  client.on('error', () => undefined);
  await once(client, 'open');
  return client;
}

const received = (client: WebSocket): string[] => {
  const texts: string[] = [];
  client.on('message', (data) => texts.push(String(data)));
  return texts;
};
/** Not `once`, which rejects for the error that may come before the close. */
const closeOf = (client: WebSocket): Promise<readonly [number, string]> =>
  new Promise((resolve) => {
    client.once('close', (code, reason) => resolve([code, String(reason)]));
  });

const handshake = [
  'Connection: keep-alive, Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];

/** The streams of a sidecar, for one caller that may ask. */
async function startOwn(adapter: ServerPort, answers: Partial<StreamsDeps['answers']> = {}) {
  const caller = { keyId: 'key_1' as ApiKeyId, mode: 'live', scopes: [] } as const;
  const intake = { admit: () => caller, moment: () => momentOf(systemClock) };
  const streams = new Streams({
    intake: intake as unknown as StreamsDeps['intake'],
    answers: answers as StreamsDeps['answers'],
    outcomes: { take: () => undefined },
    turns: new Turns(),
    writer: new RequestWriter(),
    random: systemRandom(),
  });
  const sockets: StreamSocket[] = [];
  const server = await start(adapter, {
    streamPath: '/stream',
    headerNamesOf: () => handshakeHeaders,
    handler: (head) => {
      const upgrade = streams.upgrade(head, { requestId: 'req_1' as RequestId, nowMs: systemClock.now() });
      if (!('open' in upgrade)) return upgrade;
      return {
        open: (socket) => {
          sockets.push(socket);
          return upgrade.open(socket);
        },
      };
    },
  });
  return { streams, server, sockets };
}

describe.each(adapters)('$name: streams', (adapter) => {
  it('carry texts both ways, whole, in order and uncompressed', async () => {
    const { server, streams, statuses } = await startStreams(adapter);
    const client = await connect(server, { perMessageDeflate: true });
    expect([client.extensions, client.protocol]).toEqual(['', '']);
    const texts = received(client);
    client.send('');
    client.send('é');
    client.send('x'.repeat(httpLimits.streamMessageBytesMax));
    client.send(Buffer.from('bytes'));
    for (const part of ['a', '', 'b']) client.send(part, { fin: false });
    client.send('c');
    await until(() => texts.length === 10, { what: 'ten answers' });
    expect(texts.filter((_, place) => place % 2 === 0)).toEqual(['0', '2', '131072', '5', '3']);
    expect(streams[0]?.messages.map(([, isBinary]) => isBinary)).toEqual([false, false, false, true, false]);
    expect(statuses).toEqual([101]);
    expect(server.openRequests).toBe(0);
  });

  it('accept the key as RFC 6455 §1.3 computes it, and refuse what their handler refuses', async () => {
    const { server, streams } = await startStreams(adapter);
    const raw = await server.connect();
    await raw.send(request('GET /stream', { headers: handshake }));
    const accepted = await raw.next();
    expect(accepted?.status).toBe(101);
    expect(accepted?.headers.get('sec-websocket-accept')).toBe('s3pPLMBiTxaQ9kYGzzhZRbK+xOo=');
    expect(accepted?.headers.get('x-members')).toBe('one, two');
    const refused = await server.connect();
    await refused.send(request('GET /stream', { headers: [...handshake, 'X-Want: no'] }));
    expect(await refused.next()).toMatchObject({ status: 403, body: '{"served":true}' });
    expect(streams).toHaveLength(1);
  });

  it('refuse a request that no handshake is, though its handler would take it', async () => {
    const { server, streams } = await startStreams(adapter);
    const client = await server.connect();
    await client.send(request('GET /stream'));
    expect(await client.next()).toMatchObject({ status: 400, body: '{"error":"invalid_request"}' });
    expect(streams).toEqual([]);
  });

  it.each(['h2c', 'websocket'])('ignore an offer to upgrade to %s elsewhere', async (protocol) => {
    const { server } = await startStreams(adapter);
    const client = await server.connect();
    const headers = [...handshake.filter((line) => !line.startsWith('Upgrade')), `Upgrade: ${protocol}`];
    await client.send(request('POST /elsewhere', { headers, body: 'abc' }));
    expect(await client.next()).toMatchObject({ status: 200, body: '{"served":true}' });
    await client.send(request('GET /elsewhere', { headers }));
    expect(await client.next()).toMatchObject({ status: 200 });
  });

  it('end, and no other, for what RFC 6455 forbids', async () => {
    const { server, streams } = await startStreams(adapter);
    const other = await connect(server);
    const texts = received(other);
    const wrong: readonly ((client: WebSocket) => void)[] = [
      (client) => client.send('x'.repeat(httpLimits.streamMessageBytesMax + 1)),
      (client) => client.send(Buffer.from([0xff]), { binary: false }),
    ];
    for (const send of wrong) {
      const client = await connect(server);
      const closing = closeOf(client);
      send(client);
      const [code] = await closing;
      expect(adapter.name === 'node:http' ? [1002, 1007, 1009] : [1006]).toContain(code);
    }
    await until(() => streams.slice(1).every(({ closes }) => closes === 1), { what: 'closed streams' });
    other.send('abc');
    await until(() => texts.length === 2, { what: 'an answer' });
    expect(texts).toEqual(['3', 'again']);
  });

  it('close with code and reason, once, and do nothing afterwards', async () => {
    const { server, streams } = await startStreams(adapter);
    const client = await connect(server);
    const [stream] = streams;
    const closing = closeOf(client);
    stream?.socket.send(['last']);
    stream?.socket.close(4401, 'named');
    stream?.socket.send(['too late']);
    stream?.socket.ping();
    stream?.socket.close(4402, 'again');
    expect(await closing).toEqual([4401, 'named']);
    await until(() => stream?.closes === 1, { what: 'a closed stream' });
    stream?.socket.terminate();
    expect(stream?.socket.bufferedBytes).toBe(0);
  });

  it('learn that their client has left, with a close, a FIN or a reset', async () => {
    const { server, streams } = await startStreams(adapter);
    const leaving = [(client: WebSocket) => client.close(), (client: WebSocket) => client.terminate()];
    for (const leave of leaving) leave(await connect(server));
    const raw = await server.connect();
    await raw.send(request('GET /stream', { headers: handshake }));
    await raw.next();
    await raw.leave('reset');
    await until(() => streams.length === 3 && streams.every(({ closes }) => closes === 1), {
      what: 'three closed streams',
    });
  });

  it('know what their client has not read, and when it has', async () => {
    const { server, streams } = await startStreams(adapter);
    const client = await connect(server);
    const texts = received(client);
    const [stream] = streams;
    client.pause();
    const message = 'x'.repeat(1024 * 1024);
    await until(
      () => {
        stream?.socket.send([message]);
        return (stream?.socket.bufferedBytes ?? 0) > message.length;
      },
      { what: 'bytes that nobody reads' },
    );
    client.resume();
    await until(() => stream?.socket.bufferedBytes === 0, { what: 'everything read' });
    await until(() => (stream?.drains ?? 0) > 0, { what: 'a drain' });
    expect(texts.every((text) => text === message)).toBe(true);
  });

  it('answer pings, and are answered', async () => {
    const { server, streams } = await startStreams(adapter);
    const client = await connect(server);
    const pong = once(client, 'pong');
    client.ping();
    await pong;
    expect(streams[0]?.pings).toBe(1);
    streams[0]?.socket.ping();
    await until(() => streams[0]?.pongs === 1, { what: 'a pong' });
  });

  it('outlive a listener that throws, and one that cannot be opened', async () => {
    const { server } = await startStreams(adapter);
    const client = await connect(server);
    const texts = received(client);
    client.send('throw');
    client.send('abc');
    await until(() => texts.length === 2, { what: 'an answer' });
    expect(server.errors).toEqual(['a callback of a stream threw']);

    const broken = await start(adapter, {
      streamPath: '/stream',
      handler: () => ({
        open: () => {
          throw new Error('thrown by open');
        },
      }),
    });
    const unopened = new WebSocket(`ws://127.0.0.1:${broken.port}/stream`);
    clients.push(unopened);
    unopened.on('error', () => undefined);
    expect((await closeOf(unopened))[0]).toBe(1006);
    expect(broken.errors).toHaveLength(1);
  });

  it('are cut off when their server is closed', async () => {
    const { server, streams } = await startStreams(adapter);
    const closing = closeOf(await connect(server));
    await server.close();
    expect((await closing)[0]).toBe(1006);
    await until(() => streams[0]?.closes === 1, { what: 'a closed stream' });
  });

  it('are closed when they are stopped, though their clients read none of the answers', async () => {
    const error = new ApiError('invalid_request', { message: 'x'.repeat(20 * 1024) });
    const failure = (_: unknown, requestId: RequestId) => errorReply(error, requestId);
    const { streams, server, sockets } = await startOwn(adapter, { failure });
    const client = await connect(server);
    client.pause();
    let sent = 0;
    const send = () => {
      for (let n = 0; n < 100; n++, sent++) client.send('{}');
    };
    await until(
      () => {
        if ((sockets[0]?.bufferedBytes ?? 0) > streamLimits.bufferedBytesPause) return true;
        if (streams.frames === sent) send();
        return false;
      },
      { what: 'answers that nobody reads' },
    );
    send();
    await until(() => streams.frames === sent, { what: 'frames that wait for that' });
    expect(streams.open).toBe(1);
    await streams.close();
    expect(streams.open).toBe(0);
  });

  it('are pinged when they are silent, and cut off where nothing comes back', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const { streams, server } = await startOwn(adapter);
    const alive = await connect(server);
    const halfOpen = await connect(server, { autoPong: false });
    let pings = 0;
    alive.on('ping', () => pings++);
    for (let sweep = 1; sweep < streamLimits.silentSweepsMax / 2; sweep++)
      vi.advanceTimersByTime(streamLimits.sweepMs);
    await turns(5);
    expect(pings).toBe(0);
    const closing = closeOf(halfOpen);
    for (let sweep = streamLimits.silentSweepsMax / 2; sweep <= streamLimits.silentSweepsMax; sweep++) {
      const before = pings;
      vi.advanceTimersByTime(streamLimits.sweepMs);
      if (sweep === streamLimits.silentSweepsMax / 2) await until(() => pings > before, { what: 'a ping' });
      await turns(5);
    }
    expect((await closing)[0]).toBe(1006);
    expect(streams.open).toBe(1);
    expect(alive.readyState).toBe(WebSocket.OPEN);
    await streams.close();
  });
});
