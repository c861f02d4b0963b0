import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type GuardedFetch,
  type GuardedFetchOptions,
  guardedFetch,
  judgingLookup,
  TargetRefused,
} from '../../control-plane/webhooks/guarded-fetch.ts';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const open: GuardedFetch[] = [];
const guard = (options: GuardedFetchOptions): GuardedFetch => {
  const made = guardedFetch(options);
  open.push(made);
  return made;
};
const once = { method: 'POST', body: '{}', maxBytes: 1024, timeoutMs: 30_000 } as const;

afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

describe('a target refused by its URL', () => {
  const written = [
    'http://example.com/',
    'ftp://example.com/',
    'file:///etc/passwd',
    'https://user@example.com/',
    'https://user:password@example.com/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0x7f.0.0.1/',
    'https://0177.0.0.1/',
    'https://017700000001/',
    'https://127.1/',
    'https://127.0.0.1./',
    'https://%31%32%37.0.0.1/',
    'https://１２７.0.0.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1:8443/',
    'https://0/',
    'https://localhost/',
    'https://LOCALHOST.:8443/',
    'https://a.localhost/',
    'https://',
    'not a url',
    `https://example.com/${'a'.repeat(2_048)}`,
  ];

  it.each(written)('%s', async (url) => {
    const resolve = async () => {
      throw new Error('nobody asks for a name');
    };
    const { request, checkTarget } = guard({ allowPrivate: false, resolve });
    expect(() => checkTarget(url)).toThrow(TargetRefused);
    await expect(request(url, once)).rejects.toThrow(TargetRefused);
  });

  it('does not say more of the URL than its host', () => {
    const { checkTarget } = guard({ allowPrivate: false });
    expect(() => checkTarget('https://127.0.0.1/secret-path?token=abc')).toThrow(
      /^127\.0\.0\.1 is not, or does not resolve to, a public address$/,
    );
  });

  it('control: public addresses and names pass', () => {
    const { checkTarget } = guard({ allowPrivate: false });
    for (const url of ['https://example.com/hook', 'https://8.8.8.8:8443/', 'https://[2606:4700::1]/']) {
      expect(() => checkTarget(url)).not.toThrow();
    }
  });
});

describe('a name', () => {
  it.each([['127.0.0.1'], ['10.1.2.3'], ['::1'], ['::ffff:127.0.0.1'], ['64:ff9b::7f00:1'], ['fe80::1']])(
    'that resolves to %s is refused',
    async (address) => {
      const { request } = guard({ allowPrivate: false, resolve: async () => [address] });
      await expect(request('https://hook.example/', once)).rejects.toThrow(TargetRefused);
    },
  );

  it('with one private address among public ones is refused', async () => {
    const { request } = guard({ allowPrivate: false, resolve: async () => ['8.8.8.8', '10.0.0.1'] });
    await expect(request('https://hook.example/', once)).rejects.toThrow(TargetRefused);
  });

  it('with no address is refused', async () => {
    const { request } = guard({ allowPrivate: false, resolve: async () => [] });
    await expect(request('https://hook.example/', once)).rejects.toThrow(TargetRefused);
  });

  it('is judged for each connection anew: public the first time, private the second', async () => {
    const answers = [['8.8.8.8'], ['127.0.0.1']];
    const lookup = judgingLookup(async () => answers.shift() ?? [], false);
    const found = () =>
      new Promise((resolve, reject) =>
        lookup('rebinds.example', { all: true }, (error, addresses) =>
          error === null ? resolve(addresses) : reject(error),
        ),
      );
    // What comes out is what the connection is made to: nothing asks for the name again.
    expect(await found()).toEqual([{ address: '8.8.8.8', family: 4 }]);
    await expect(found()).rejects.toThrow(TargetRefused);
  });

  it('whose look-up fails is an error of the attempt, not a crash', async () => {
    const resolve = async () => {
      throw Object.assign(new Error('queryA ENOTFOUND hook.example'), { code: 'ENOTFOUND' });
    };
    const { request } = guard({ allowPrivate: false, resolve });
    await expect(request('https://hook.example/', once)).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });
});

describe('with a receiver', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.close());
  beforeEach(() => {
    receiver.received.splice(0);
    receiver.answer((response) => response.writeHead(204).end());
  });
  const port = () => new URL(receiver.url).port;

  it('a name is resolved once for each connection, and the connection goes to the address that was judged', async () => {
    const asked: string[] = [];
    // A name that rebinds: what a second look-up would find is somewhere else.
    const answers = [['127.0.0.1'], ['203.0.113.1'], ['203.0.113.1']];
    const resolve = async (host: string) => {
      asked.push(host);
      return answers.shift() ?? ['203.0.113.1'];
    };
    const { request } = guard({ allowPrivate: true, resolve });
    expect((await request(`http://rebinds.example:${port()}/`, once)).status).toBe(204);
    expect(asked).toEqual(['rebinds.example']);
    expect(receiver.received[0]?.headers.host).toBe(`rebinds.example:${port()}`);
  });

  it('does not follow a redirect', async () => {
    receiver.answer((response) => response.writeHead(302, { location: `${receiver.url}/elsewhere` }).end());
    const { request } = guard({ allowPrivate: true });
    const answer = await request(receiver.url, once);
    expect([answer.status, answer.headers['location']]).toEqual([302, `${receiver.url}/elsewhere`]);
    expect(receiver.received.map(({ path }) => path)).toEqual(['/hook']);
  });

  it('reads no more than it may, however much comes', async () => {
    receiver.answer((response) => {
      response.writeHead(200);
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(64 * 1024)));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    });
    const { request } = guard({ allowPrivate: true });
    const answer = await request(receiver.url, { ...once, maxBytes: 1_000 });
    expect([answer.status, answer.body.length, answer.isCut]).toEqual([200, 1_000, true]);
  });

  it.each(['headers', 'body'])(
    'gives up on a receiver that stalls before the end of its %s',
    async (where) => {
      receiver.answer((response) => {
        if (where === 'body') response.writeHead(200).write('a');
      });
      const { request } = guard({ allowPrivate: true });
      const before = performance.now();
      await expect(request(receiver.url, { ...once, timeoutMs: 150 })).rejects.toThrow('150 ms');
      expect(performance.now() - before).toBeLessThan(15_000);
    },
  );

  it('ends when told to', async () => {
    receiver.answer(() => undefined);
    const controller = new AbortController();
    const { request } = guard({ allowPrivate: true });
    const running = request(receiver.url, { ...once, signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(running).rejects.toThrow('enough');
  });

  it('keeps no connection for as long as its server asks for: a stranger has any number of servers', async () => {
    // Says `Keep-Alive: timeout=600`.
    const server = createServer(
      { keepAliveTimeout: 600_000 },
      (_, response) => void response.writeHead(204).end(),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const connections = () =>
      new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
    const { request } = guard({ allowPrivate: true });
    await request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, once);
    // Control: it is kept for a while.
    expect(await connections()).toBe(1);
    await until(async () => (await connections()) === 0, {
      what: 'the end of the connection',
      timeoutMs: webhooksLimits.webhookKeepAliveMs + 30_000,
    });
    server.close();
  });

  const informational = {
    'a 100 Continue': 'HTTP/1.1 100 Continue\r\n\r\n',
    'a 103 with headers': 'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\ncontent-length: 9\r\n\r\n',
    'a 102': 'HTTP/1.1 102 Processing\r\n\r\n',
    'several of them': 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 199 Later\r\n\r\nHTTP/1.1 100 Again\r\n\r\n',
  };
  it.each(Object.entries(informational))('passes over %s before the answer', async (_, bytes) => {
    const server = createTcpServer((socket) => {
      // On one connection, one request after the other; before and after the body of a request.
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        if (chunk.includes('POST ')) socket.write(bytes);
        if (chunk.toString().endsWith('{}'))
          socket.write(`${bytes}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { request } = guard({ allowPrivate: true });
    for (let i = 0; i < 3; i += 1) {
      const answer = await request(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, once);
      expect([answer.status, Buffer.from(answer.body).toString(), answer.headers['link']]).toEqual([
        200,
        'ok',
        undefined,
      ]);
    }
    server.close();
  });

  it.each([
    'HTTP/1.1 103 Early Hints\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n',
  ])('takes no %j for the answer, nor waits for ever', async (bytes) => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      const again = setInterval(() => socket.write(bytes), 10);
      socket.once('close', () => clearInterval(again));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { request } = guard({ allowPrivate: true });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    await expect(request(url, { ...once, timeoutMs: 300 })).rejects.toThrow(/no answer within|answers 101/);
    server.close();
  });

  it('ends requests in flight when it closes', async () => {
    receiver.answer(() => undefined);
    const { request, close } = guard({ allowPrivate: true });
    const running = request(receiver.url, once);
    await until(() => receiver.received.length > 0, { what: 'the request' });
    await close();
    await expect(running).rejects.toThrow('this program stops');
  });

  it('sends the given body and headers', async () => {
    const { request } = guard({ allowPrivate: true });
    await request(receiver.url, { ...once, headers: { 'x-one': '1' }, body: '{"ä":1}' });
    const [one] = receiver.received;
    expect([one?.body, one?.headers['x-one'], one?.headers['user-agent']]).toEqual([
      '{"ä":1}',
      '1',
      `agent-trust/${packageVersion} (+webhooks)`,
    ]);
  });
});
