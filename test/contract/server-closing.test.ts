import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { freePort } from '../support/base/free-port.ts';
import { RawConnection, turns } from '../support/base/raw-http.ts';
import { until } from '../support/base/until.ts';
import { adapters, opened, request, start, stopAll } from '../support/peers/server-under-test.ts';

afterEach(async () => {
  vi.useRealTimers();
  await stopAll();
});

describe.each(adapters)('$name: the port', (adapter) => {
  it.each(adapters)('refuses a second exclusive listener, $name, with EADDRINUSE', async (second) => {
    const server = await start(adapter);
    await expect(start(second, { port: server.port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('refuses a second listener that would share with an exclusive one', async () => {
    const server = await start(adapter);
    await expect(start(adapter, { port: server.port, exclusive: false })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
  });

  it('refuses an exclusive listener where others share', async () => {
    const { port } = await start(adapter, { port: await freePort(), exclusive: false });
    await expect(start(adapter, { port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  if (adapter.sharesPorts)
    it('is shared by listeners that all say so', async () => {
      const first = await start(adapter, { port: await freePort(), exclusive: false });
      const second = await start(adapter, { port: first.port, exclusive: false });
      expect(second.port).toBe(first.port);
      await second.close();
      const client = await first.connect();
      expect(await client.ask(request('GET /x'))).toMatchObject({ status: 200 });
      await client.leave();
      await first.close();
    });

  it('says which address it cannot have', async () => {
    await expect(start(adapter, { host: '192.0.2.1' })).rejects.toMatchObject({ code: 'EADDRNOTAVAIL' });
  });
});

describe.each(adapters)('$name: closing', (adapter) => {
  it('closes each connection after its answer while it drains, and still takes new ones', async () => {
    const server = await start(adapter);
    const kept = await server.connect();
    await kept.send(request('GET /x'));
    expect((await kept.next())?.headers.get('connection') ?? '').not.toMatch(/close/i);
    server.startDraining();
    for (const client of [kept, await server.connect()]) {
      const answer = await client.ask(request('POST /later', { body: 'abc' }));
      expect(answer).toMatchObject({ status: 200, body: 'later 3' });
      expect(answer?.headers.get('connection')).toMatch(/^close$/i);
      await client.closed();
    }
    server.stopAccepting();
    await expect(RawConnection.open(server.port)).rejects.toThrow('ECONNREFUSED');
  });

  it('takes no new connection, while an open request is answered and its connection then closed', async () => {
    const { server, client } = await opened(adapter);
    await client.send(request('POST /held', { body: 'a' }));
    await until(() => server.held.length === 1, { what: 'the request is held' });
    server.stopAccepting();
    server.stopAccepting();
    await expect(RawConnection.open(server.port)).rejects.toThrow('ECONNREFUSED');
    server.held[0]?.reply({ status: 200, body: 'in time' });
    const answer = await client.next();
    expect(answer?.body).toBe('in time');
    expect(answer?.headers.get('connection')).toBe('close');
    await client.closed();
  });

  it('waits for the open request, then cuts idle connections', async () => {
    const server = await start(adapter);
    const idle = await server.connect();
    const client = await server.connect();
    await client.send(request('POST /held', { body: 'a' }));
    await until(() => server.held.length === 1, { what: 'the request is held' });
    let isClosed = false;
    const closing = server.close().then(() => {
      isClosed = true;
    });
    await turns(10);
    expect(isClosed).toBe(false);
    server.held[0]?.reply({ status: 200, body: 'x'.repeat(50_000) });
    await closing;
    expect((await client.next())?.body).toHaveLength(50_000);
    await idle.closed();
    await server.close();
  });

  it('sees out its last answer; uWebSockets.js as far as the kernel has taken it', async () => {
    const server = await start(adapter);
    const client = connect({ host: '127.0.0.1', port: server.port }).pause();
    client.on('error', () => undefined);
    client.write(request('POST /held', { body: 'a' }));
    await until(() => server.held.length === 1, { what: 'the request is held' });
    const bytes = 32 * 1024 * 1024;
    const closing = server.close();
    server.held[0]?.reply({ status: 200, body: 'x'.repeat(bytes) });
    await turns(10);
    let received = 0;
    client.on('data', (piece: Buffer) => {
      received += piece.byteLength;
    });
    await once(client.resume(), 'close');
    await closing;
    expect(received > bytes).toBe(adapter.name === 'node:http');
  });

  it('answers a reply of this very turn before it closes', async () => {
    const server = await start(adapter, {
      handler: () => (_body, responder) => {
        responder.reply({ status: 200, body: 'last words' });
        closing = server.close();
      },
    });
    let closing: Promise<void> = Promise.resolve();
    const client = await server.connect();
    expect((await client.ask(request('POST /any', { body: 'a' })))?.body).toBe('last words');
    await closing;
  });

  it('gives up after the drain time, and aborts the requests that are still open', async () => {
    const { server, client } = await opened(adapter);
    await client.send(request('POST /held', { body: 'a' }));
    await until(() => server.held.length === 1, { what: 'the request is held' });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const closing = server.close();
    vi.advanceTimersByTime(limits.drainMsMax - 1);
    expect(server.openRequests).toBe(1);
    vi.advanceTimersByTime(1);
    await closing;
    vi.useRealTimers();
    expect(server.openRequests).toBe(0);
    expect(server.held[0]?.isAborted).toBe(true);
    server.held[0]?.reply({ status: 200, body: 'too late' });
    expect(await client.next()).toBeNull();
  });
});
