import { Pool } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { chooseServer } from '../../sidecar/http/choose-server.ts';
import { httpLimits } from '../../sidecar/http/limits.ts';
import { RawConnection, turns } from '../support/base/raw-http.ts';
import { until } from '../support/base/until.ts';
import { adapters, hash, opened, request, start, stopAll } from '../support/peers/server-under-test.ts';

afterEach(stopAll);

describe('chooseServer', () => {
  it('takes uWebSockets.js where its binary loads, and otherwise says why not', async () => {
    const server = await chooseServer(process.env, 'uws');
    const hasBinary =
      process.platform === 'linux' &&
      process.arch === 'x64' &&
      ['115', '127'].includes(process.versions.modules);
    if (hasBinary) expect(server.name).toBe('uWebSockets.js');
    expect(server.fallbackReason === null).toBe(server.name === 'uWebSockets.js');
  });

  it('takes node:http where that is wanted, as a choice and not as a fallback', async () => {
    expect(await chooseServer(process.env, 'node')).toMatchObject({
      name: 'node:http',
      fallbackReason: null,
    });
  });
});

describe.each(adapters)('$name: what the handler receives', (adapter) => {
  const headOf = async (text: string, headerNames: readonly string[] = []) => {
    const { client } = await opened(adapter, { headerNamesOf: () => headerNames });
    return JSON.parse((await client.ask(text))?.body ?? 'null');
  };

  it('method, path, query, key and peer', async () => {
    const head = await headOf(
      request('POST /v1/gates/g/check?wait=1&x=%20', { headers: ['Authorization: Bearer k'], body: '' }),
    );
    expect(head).toEqual({
      method: 'POST',
      path: '/v1/gates/g/check',
      query: 'wait=1&x=%20',
      authorization: 'Bearer k',
      headers: [],
      remoteAddress: '127.0.0.1',
    });
  });

  it('a path whose percent-encoding is wrong, as it was sent', async () => {
    expect(await headOf(request('GET /v1/a%zz/%2e%2E//b%'))).toMatchObject({
      path: '/v1/a%zz/%2e%2E//b%',
      query: '',
    });
  });

  it('nothing for absent parts', async () => {
    expect(await headOf(request('GET /x?'), ['x-a'])).toMatchObject({
      query: '',
      authorization: '',
      headers: [''],
    });
  });

  it('the headers it asked for, in its order, whatever their case', async () => {
    const sent = request('GET /x', { headers: ['X-B: two', 'x-other: no', 'X-A: one'] });
    expect(await headOf(sent, ['x-a', 'x-b', 'x-c'])).toMatchObject({ headers: ['one', 'two', ''] });
  });

  it('a repeated header joined, so that no half passes for the whole', async () => {
    const sent = request('GET /x', {
      headers: ['Authorization: Bearer a', 'X-A: 1', 'Authorization: Bearer b', 'X-A: 2'],
    });
    expect(await headOf(sent, ['x-a'])).toMatchObject({
      authorization: 'Bearer a, Bearer b',
      headers: ['1, 2'],
    });
  });

  it('the trace, and two of them as one text that is no valid one', async () => {
    const { client } = await opened(adapter);
    const seen: (string | undefined)[] = [];
    for (const headers of [[], ['Traceparent: 00-a-b-01'], ['traceparent: a', 'TRACEPARENT: b'], []]) {
      seen.push((await client.ask(request('GET /trace', { headers })))?.body);
    }
    expect(seen).toEqual(['', '00-a-b-01', 'a, b', '']);
  });

  it('an IPv4 peer of a socket for both families as IPv4', async () => {
    const { server, client } = await opened(adapter, { host: '::' });
    expect(JSON.parse((await client.ask(request('GET /x')))?.body ?? 'null')).toMatchObject({
      remoteAddress: '127.0.0.1',
    });
    const six = await RawConnection.open(server.port, '::1');
    await six.send(request('GET /x'));
    expect(JSON.parse((await six.next())?.body ?? 'null')).toMatchObject({ remoteAddress: '::1' });
    await six.leave();
  });

  it('no more than the header, when that is not ASCII, and goes on serving', async () => {
    const { client } = await opened(adapter);
    const head = JSON.parse(
      (await client.ask(request('GET /x', { headers: ['Authorization: Bearer \xe9\xff\x80'] })))?.body ??
        'null',
    );
    // uWebSockets.js drops such bytes at either end of a value, node:http reads them as latin1.
    expect(head.authorization).toMatch(/^Bearer/);
    expect(await client.ask(request('GET /x'))).toMatchObject({ status: 200 });
  });

  it('a header block of 12 KiB, which is more than the addon takes by default', async () => {
    const token = 'a'.repeat(12 * 1024);
    expect(await headOf(request('GET /x', { headers: [`X-A: ${token}`] }), ['x-a'])).toMatchObject({
      headers: [token],
    });
  });
});

describe.each(adapters)('$name: bodies', (adapter) => {
  it.each([0, 1, 1_000, limits.bodyBytesMax])('%i bytes arrive whole', async (bytes) => {
    const { client } = await opened(adapter);
    const body = 'x'.repeat(bytes);
    expect((await client.ask(request('POST /echo', { body })))?.body).toBe(`POST ${bytes} ${hash(body)}`);
  });

  it.each([limits.bodyBytesMax + 1, limits.bodyDiscardBytesMax])(
    '%i bytes are read to the end, then refused',
    async (bytes) => {
      const { client } = await opened(adapter);
      expect(await client.ask(request('POST /echo', { body: 'x'.repeat(bytes) }))).toMatchObject({
        status: 400,
        body: '{"error":"body_too_large"}',
      });
      expect((await client.ask(request('POST /echo', { body: 'again' })))?.body).toBe(
        `POST 5 ${hash('again')}`,
      );
    },
  );

  it.each(['/echo', '/ignored'])(
    'more than is read on at %s: refused and closed, without waiting for the rest',
    async (path) => {
      const { client } = await opened(adapter);
      await client.send(
        `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${2 * limits.bodyDiscardBytesMax}\r\n\r\n`,
      );
      expect(await client.ask('x'.repeat(limits.bodyDiscardBytesMax + 1))).toMatchObject({
        status: 400,
        body: '{"error":"body_too_large"}',
      });
      await client.closed();
    },
  );

  it.each([0, 5, limits.bodyBytesMax + 1, limits.bodyDiscardBytesMax])(
    'none of %i bytes, where the route ignores its body',
    async (bytes) => {
      const { client } = await opened(adapter);
      expect(await client.ask(request('POST /ignored', { body: 'x'.repeat(bytes) }))).toMatchObject({
        status: 200,
        body: 'ignored 0',
      });
      expect((await client.ask(request('POST /echo', { body: 'again' })))?.body).toBe(
        `POST 5 ${hash('again')}`,
      );
    },
  );

  it('large ones that are still coming have bounded room together; small ones always have theirs', async () => {
    const server = await start(adapter);
    const body = 'x'.repeat(limits.bodyDiscardBytesMax);
    const whole = Buffer.from(request('POST /large', { body }));
    const [most, last] = [whole.subarray(0, -1), whole.subarray(-1)];
    const begin = async () => {
      const client = await server.connect();
      await client.send(most);
      await turns(10);
      return client;
    };
    const first: RawConnection[] = [];
    const beginOneMore = async (open: number) => {
      const client = await begin();
      await until(() => server.openRequests === open + 1, { what: 'the server has begun with it' });
      return client;
    };
    while (first.length < httpLimits.largeBodiesBytesMax / body.length)
      first.push(await beginOneMore(first.length));
    const oneTooMany = await begin();
    const small = await server.connect();
    await small.send(request('POST /echo', { body: 'small' }).slice(0, -1));
    await turns();
    await small.send('l');
    expect((await small.next())?.body).toBe(`POST 5 ${hash('small')}`);
    await oneTooMany.send(last);
    expect(await oneTooMany.next()).toMatchObject({ status: 503, body: '{"error":"overloaded"}' });
    for (const client of first) await client.send(last);
    for (const client of first) {
      expect((await client.next())?.body).toBe(`large ${body.length} ${hash(body)}`);
    }
    // Whoever ends makes room, also by leaving.
    await until(() => server.openRequests === 0, { what: 'all are answered' });
    const leaving: RawConnection[] = [];
    while (leaving.length < first.length) leaving.push(await beginOneMore(leaving.length));
    for (const client of leaving) await client.leave('reset');
    await until(() => server.openRequests === 0, { what: 'they have left' });
    await oneTooMany.send(whole);
    expect(await oneTooMany.next()).toMatchObject({ status: 200 });
  });

  it('all bytes, in their order, in pieces of any size', async () => {
    const { client } = await opened(adapter);
    const body = Uint8Array.from({ length: 40_000 }, (_, index) => (index * 7) % 251);
    await client.send(`POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.byteLength}\r\n\r\n`);
    for (let from = 0, size = 1; from < body.byteLength; from += size, size = (size * 3) % 4_999) {
      await client.send(body.subarray(from, from + size));
      await turns(1);
    }
    expect((await client.next())?.body).toBe(`POST 40000 ${hash(body)}`);
  });

  it("read after the handler, against the contract, are empty or unchanged, never another request's", async () => {
    const kept: Uint8Array[] = [];
    const server = await start(adapter, {
      handler: () => (body, responder) => {
        kept.push(body);
        responder.reply({ status: 200, body: '' });
      },
    });
    const client = await server.connect();
    for (const letter of 'abc') {
      await client.send(request('POST /x', { body: letter.repeat(1_000) }));
      await client.next();
    }
    const texts = kept.map((body) => Buffer.from(body).toString());
    for (const [index, text] of texts.entries())
      expect(['', 'abc'.charAt(index).repeat(1_000)]).toContain(text);
  });

  it('of a GET, like any other', async () => {
    const { client } = await opened(adapter);
    expect((await client.ask(request('GET /echo', { body: 'hello' }) + request('GET /echo')))?.body).toBe(
      `GET 5 ${hash('hello')}`,
    );
    expect((await client.next())?.body).toBe(`GET 0 ${hash('')}`);
  });

  it('that the head has answered already are thrown away, and the connection goes on', async () => {
    const { client } = await opened(adapter);
    expect(await client.ask(request('POST /refused', { body: 'x'.repeat(1_000) }))).toMatchObject({
      status: 401,
    });
    expect((await client.ask(request('POST /echo', { body: 'next' })))?.body).toBe(`POST 4 ${hash('next')}`);
  });

  it('that are announced with Expect: 100-continue are asked for', async () => {
    const { client } = await opened(adapter);
    expect(
      await client.ask('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n'),
    ).toMatchObject({ status: 100 });
    expect((await client.ask('hello'))?.body).toBe(`POST 5 ${hash('hello')}`);
  });
});

describe.each(adapters)('$name: answers', (adapter) => {
  it('have the status, type, length and headers they were given', async () => {
    const { client } = await opened(adapter);
    const answer = await client.ask(request('GET /refused'));
    expect(answer).toMatchObject({ status: 401, body: '{"error":"unauthorized"}' });
    expect(answer?.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(answer?.headers.get('content-length')).toBe('24');
    expect(answer?.headers.get('x-request-id')).toBe('req_1');
    expect(answer?.headers.get('www-authenticate')).toBe('Bearer');
  });

  it('may be empty, and then have no type', async () => {
    const { client } = await opened(adapter);
    const answer = await client.ask(request('GET /empty'));
    expect(answer).toMatchObject({ status: 200, body: '' });
    expect(answer?.headers.has('content-type')).toBe(false);
  });

  it('may come on a later turn', async () => {
    const { client } = await opened(adapter);
    expect(await client.ask(request('POST /later', { body: 'abc' }))).toMatchObject({
      status: 200,
      body: 'later 3',
    });
  });

  it('to HEAD are the headers alone, and the next answer follows', async () => {
    const { client } = await opened(adapter);
    await client.send(request('HEAD /refused'));
    const answer = await client.next({ isHead: true });
    expect(answer?.status).toBe(401);
    expect(answer?.headers.get('content-length')).toBe('24');
    await client.send(request('HEAD /later'));
    expect(await client.next({ isHead: true })).toMatchObject({ status: 200 });
    expect((await client.ask(request('GET /echo')))?.body).toBe(`GET 0 ${hash('')}`);
    expect(client.unread).toBe('');
  });

  it('to pipelined requests come in order, when each is given at once', async () => {
    const { client } = await opened(adapter);
    const bodies = Array.from({ length: 50 }, (_, index) => `body ${index}`);
    await client.send(bodies.map((body) => request('POST /echo', { body })).join(''));
    for (const body of bodies) expect((await client.next())?.body).toBe(`POST ${body.length} ${hash(body)}`);
  });

  it('come in order or not at all, when a pipelined request waits behind a later answer', async () => {
    const { server, client } = await opened(adapter);
    await client.send(request('POST /held', { body: 'a' }) + request('POST /echo', { body: 'b' }));
    await until(() => server.held.length === 1, { what: 'the first is held' });
    await turns();
    server.held[0]?.reply({ status: 200, body: 'first' });
    const first = await client.next();
    if (adapter.name === 'uWebSockets.js') {
      expect(first).toBeNull();
      expect(server.warnings).toEqual([expect.stringMatching(/pipelined .* SIDECAR_HTTP=node/)]);
    } else {
      expect(first?.body).toBe('first');
      expect((await client.next())?.body).toBe(`POST 1 ${hash('b')}`);
    }
  });

  it('come with no warning of pipelining to a client that leaves while it waits', async () => {
    const { server, client } = await opened(adapter);
    await client.send(request('POST /held', { body: 'a' }));
    await until(() => server.held.length === 1, { what: 'the request is held' });
    await client.leave('reset');
    await until(() => server.openRequests === 0, { what: 'the server knows' });
    expect(server.warnings).toEqual([]);
  });

  it('end the connection when the client wants that', async () => {
    const { client } = await opened(adapter);
    expect(
      await client.ask(request('POST /later', { body: 'abc', headers: ['Connection: close'] })),
    ).toMatchObject({ status: 200 });
    await client.closed();
  });

  it('serve a real client over kept connections', async () => {
    const server = await start(adapter);
    const pool = new Pool(`http://127.0.0.1:${server.port}`, { connections: 4 });
    let connects = 0;
    pool.on('connect', () => {
      connects += 1;
    });
    const calls = Array.from({ length: 100 }, async (_, index) => {
      const body = `body ${index}`;
      const answer = await pool.request({ path: '/echo', method: 'POST', body });
      expect(await answer.body.text()).toBe(`POST ${body.length} ${hash(body)}`);
    });
    await Promise.all(calls);
    expect(connects).toBeLessThanOrEqual(4);
    await pool.close();
  });

  it('reach two hundred connections at once, each its own', async () => {
    const server = await start(adapter);
    const clients = await Promise.all(Array.from({ length: 200 }, () => server.connect()));
    for (const round of [1, 2]) {
      await Promise.all(
        clients.map((client, index) => client.send(request('POST /held', { body: `${round}-${index}` }))),
      );
      await until(() => server.openRequests === 200, { what: 'all are waiting' });
      for (const [index, responder] of server.held.splice(0).entries())
        responder.reply({ status: 200, body: `to ${index}` });
      const answers = await Promise.all(clients.map((client) => client.next()));
      expect(new Set(answers.map((answer) => answer?.body)).size).toBe(200);
      expect(server.openRequests).toBe(0);
    }
  });
});

describe.each(adapters)('$name: a handler that fails', (adapter) => {
  it.each(['/throw', '/throw-in-body'])('on %s is answered for, and logged', async (path) => {
    const { server, client } = await opened(adapter);
    const answer = await client.ask(request(`POST ${path}`, { body: 'abc' }));
    expect(answer).toMatchObject({ status: 500, body: '{"error":"internal_error"}' });
    expect(answer?.headers.get('x-request-id')).toBe('req_of_the_refusal');
    expect(server.errors).toHaveLength(1);
    expect(await client.ask(request('POST /echo', { body: 'abc' }))).toMatchObject({ status: 200 });
  });

  it('after it has replied changes nothing, and is logged', async () => {
    const { server, client } = await opened(adapter);
    expect(await client.ask(request('POST /throw-after-reply', { body: 'abc' }))).toMatchObject({
      status: 200,
      body: 'in time',
    });
    expect(server.errors).toHaveLength(1);
  });

  it('by a line break in a header sends none of it', async () => {
    const { client } = await opened(adapter);
    const answer = await client.ask(request('POST /line-break', { body: '' }));
    expect(answer?.status).toBe(500);
    expect(answer?.headers.has('x-forged')).toBe(false);
  });

  it('by replying twice gets an error, and the client gets the first reply', async () => {
    const { server, client } = await opened(adapter);
    await client.send(request('POST /held', { body: '' }));
    await until(() => server.held.length === 1, { what: 'the request is held' });
    server.held[0]?.reply({ status: 200, body: 'first' });
    expect(() => server.held[0]?.reply({ status: 200, body: 'second' })).toThrow('answered once');
    expect(await client.next()).toMatchObject({ body: 'first' });
    expect(client.unread).toBe('');
  });

  it('even while refusing closes the connection instead of leaving the client waiting', async () => {
    const server = await start(adapter, {
      refuse: () => {
        throw new Error('thrown by refuse');
      },
    });
    const client = await server.connect();
    expect(await client.ask(request('POST /throw', { body: '' }))).toBeNull();
    expect(server.errors).toHaveLength(2);
  });
});
