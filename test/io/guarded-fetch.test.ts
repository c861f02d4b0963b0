import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type GuardedFetch,
  type GuardedFetchOptions,
  guardedFetch,
  judgingLookup,
  TargetRefused,
} from '../../control-plane/outbox/guarded-fetch.ts';
import { outboxLimits } from '../../control-plane/outbox/limits.ts';
import { listening } from '../support/base/listening.ts';
import { until } from '../support/base/until.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';

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
    'file:///etc/passwd',
    'https://user:password@example.com/',
    'https://127.0.0.1/',
    'https://0x7f000001/',
    'https://127.0.0.1./',
    'https://１２７.0.0.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://169.254.169.254/latest/meta-data',
    'https://LOCALHOST.:8443/',
    'https://a.localhost/',
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
  it.each([['127.0.0.1'], ['::ffff:127.0.0.1']])('that resolves to %s is refused', async (address) => {
    const { request } = guard({ allowPrivate: false, resolve: async () => [address] });
    await expect(request('https://hook.example/', once)).rejects.toThrow(TargetRefused);
  });

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

describe('where private targets are allowed', () => {
  it.each([
    ...['http://169.254.169.254/latest/meta-data/', 'http://2852039166/', 'http://[fe80::1]/'],
    ...['http://[::ffff:a9fe:a9fe]/', 'http://[64:ff9b::a9fe:a9fe]/', 'http://[fd00:ec2::254]/'],
  ])('%s is refused all the same', async (url) => {
    const { request, checkTarget } = guard({ allowPrivate: true });
    expect(() => checkTarget(url)).toThrow(/link-local|not an absolute/);
    await expect(request(url, once)).rejects.toThrow(TargetRefused);
  });

  it.each(['169.254.169.254', 'fe80::1', '::ffff:169.254.0.1'])(
    'so is a name that resolves to %s beside others',
    async (address) => {
      const { request } = guard({ allowPrivate: true, resolve: async () => ['127.0.0.1', address] });
      await expect(request('http://metadata.example/', once)).rejects.toThrow(/^metadata\.example is, or/);
    },
  );

  it('control: private addresses pass', () => {
    const { checkTarget } = guard({ allowPrivate: true });
    for (const url of ['http://127.0.0.1:1/', 'http://10.0.0.1/', 'https://[fd12::1]/', 'http://localhost/'])
      expect(() => checkTarget(url)).not.toThrow();
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

  it('keeps no connection for as long as its server asks for: a stranger has any number of servers', async () => {
    // Says `Keep-Alive: timeout=600`.
    const server = createServer(
      { keepAliveTimeout: 600_000 },
      (_, response) => void response.writeHead(204).end(),
    );
    const { origin, close } = await listening(server);
    const connections = () =>
      new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
    const { request } = guard({ allowPrivate: true });
    await request(`${origin}/`, once);
    // Control: it is kept for a while.
    expect(await connections()).toBe(1);
    await until(async () => (await connections()) === 0, {
      what: 'the end of the connection',
      timeoutMs: outboxLimits.keepAliveMs + 30_000,
    });
    await close();
  });

  const informational = {
    'a 103 with headers': 'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\ncontent-length: 9\r\n\r\n',
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
    const { origin, close } = await listening(server);
    const { request } = guard({ allowPrivate: true });
    for (let i = 0; i < 3; i += 1) {
      const answer = await request(`${origin}/`, once);
      expect([answer.status, Buffer.from(answer.body).toString(), answer.headers['link']]).toEqual([
        200,
        'ok',
        undefined,
      ]);
    }
    await close();
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
    const { origin, close } = await listening(server);
    const { request } = guard({ allowPrivate: true });
    const asked = request(`${origin}/`, { ...once, timeoutMs: 300 });
    await expect(asked).rejects.toThrow(/no answer within|answers 101/);
    await close();
  });

  it.each(['101 Switching Protocols', '600 Odd', '999 Odd'])(
    'takes %s, which no `Response` can have, for a fault of the server',
    async (line) => {
      const server = createTcpServer((socket) => {
        socket.on('error', () => undefined);
        socket.once('data', () => socket.end(`HTTP/1.1 ${line}\r\ncontent-length: 0\r\n\r\n`));
      });
      const { origin, close } = await listening(server);
      const { request } = guard({ allowPrivate: true });
      await expect(request(`${origin}/`, once)).rejects.toThrow(`the server answers ${line.slice(0, 3)}`);
      await close();
    },
  );

  it('ends requests in flight when it closes', async () => {
    receiver.answer(() => undefined);
    const { request, close } = guard({ allowPrivate: true });
    const running = request(receiver.url, once);
    await until(() => receiver.received.length > 0, { what: 'the request' });
    await close();
    await expect(running).rejects.toThrow('this program stops');
  });
});
