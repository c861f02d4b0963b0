import { describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { turns } from '../support/base/raw-http.ts';
import { until } from '../support/base/until.ts';
import { adapters, hash, request, type ServerUnderTest, start } from '../support/peers/server-under-test.ts';

const whole = request('POST /echo', { headers: ['Authorization: Bearer k'], body: '{"passport":"x"}' });
const wholeHeld = whole.replace('/echo', '/held');
const requestLineEnd = whole.indexOf('\r\n') + 2;
const allOffsets = Array.from({ length: whole.length - 1 }, (_, index) => index + 1);

const serves = async (server: ServerUnderTest) => {
  const client = await server.connect();
  await client.send(whole);
  expect((await client.next())?.body).toBe(`POST 16 ${hash('{"passport":"x"}')}`);
  await client.leave();
};

/**
 * uWebSockets.js refuses a request whose first piece ends here, because it reads the version before it has
 * come: right after the method's space, and from after the target's space to before the line feed.
 */
const isInVersion = (offset: number): boolean =>
  offset === whole.indexOf(' ') + 1 || (offset > whole.indexOf(' HTTP/') && offset < requestLineEnd);

/** Clients that go away, at every so many-th byte and so many times each. */
export function describeServerAborts({
  every,
  rounds,
}: {
  readonly every: number;
  readonly rounds: number;
}): void {
  const offsets = allOffsets.filter((offset) => isInVersion(offset) || offset % every === 0);

  describe.each(adapters)('$name: a request cut in two', (adapter) => {
    const refused = adapter.name === 'uWebSockets.js' ? offsets.filter(isInVersion) : [];

    it('at any byte is the same request', async () => {
      const server = await start(adapter);
      const client = await server.connect();
      for (const offset of offsets.filter((candidate) => !refused.includes(candidate))) {
        await client.send(whole.slice(0, offset));
        await turns();
        await client.send(whole.slice(offset));
        expect((await client.next())?.body, `split at ${offset}`).toBe(`POST 16 ${hash('{"passport":"x"}')}`);
      }
    });

    if (refused.length > 0) {
      it('before its version is known is refused, and nothing is served', async () => {
        const server = await start(adapter);
        for (const offset of refused) {
          const client = await server.connect();
          await client.send(wholeHeld.slice(0, offset));
          expect((await client.next())?.status, `split at ${offset}`).toBe(505);
          await client.closed();
        }
        expect(server.held).toHaveLength(0);
      });
    }

    it('byte by byte after its first line is the same request', async () => {
      const server = await start(adapter);
      const client = await server.connect();
      await client.send(whole.slice(0, requestLineEnd));
      for (const byte of whole.slice(requestLineEnd)) {
        await turns(2);
        await client.send(byte);
      }
      expect((await client.next())?.body).toBe(`POST 16 ${hash('{"passport":"x"}')}`);
    });
  });

  describe.each(adapters)('$name: a client that goes away', (adapter) => {
    it.each(['close', 'reset'] as const)(
      'at any byte of its request (%s) leaves nothing open',
      async (how) => {
        const server = await start(adapter);
        for (const offset of offsets) {
          const client = await server.connect();
          await client.send(whole.slice(0, offset));
          await turns(2);
          await client.leave(how);
        }
        await until(() => server.openRequests === 0, { what: 'every request was given up' });
        expect(server.errors).toEqual([]);
        await serves(server);
      },
    );

    it.each(['close', 'reset', 'half-close'] as const)(
      'while its answer is pending (%s) is noticed, and the answer is silent',
      async (how) => {
        const server = await start(adapter);
        for (let round = 0; round < rounds; round += 1) {
          const client = await server.connect();
          await client.send(wholeHeld);
          await until(() => server.held.length === round + 1, { what: 'the request is held' });
          expect(server.held[round]?.isAborted).toBe(false);
          await client.leave(how);
        }
        await until(() => server.held.every((responder) => responder.isAborted), {
          what: 'every abort is noticed',
        });
        expect(server.openRequests).toBe(0);
        for (const responder of server.held) responder.reply({ status: 200, body: 'to nobody' });
        expect(server.errors).toEqual([]);
        await serves(server);
      },
    );

    it('in the turn of its answer affects no other request', async () => {
      const server = await start(adapter);
      for (let round = 0; round < rounds; round += 1) {
        const client = await server.connect();
        await client.send(wholeHeld);
        await until(() => server.held.length === 1, { what: 'the request is held' });
        const leaving = client.leave(round % 2 === 0 ? 'close' : 'reset');
        server.held.pop()?.reply({ status: 200, body: 'x'.repeat(60_000) });
        await leaving;
      }
      await until(() => server.openRequests === 0, { what: 'no request stays open' });
      expect(server.errors).toEqual([]);
      await serves(server);
    });

    it('in the midst of a body that is too large leaves nothing open', async () => {
      const server = await start(adapter);
      for (const bytes of [limits.bodyBytesMax, limits.bodyBytesMax + 1, limits.bodyDiscardBytesMax - 1]) {
        const client = await server.connect();
        await client.send(
          `POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: ${limits.bodyDiscardBytesMax}\r\n\r\n`,
        );
        await client.send('x'.repeat(bytes));
        await until(() => server.openRequests === 1, { what: 'its head has arrived' });
        await client.leave('reset');
        await until(() => server.openRequests === 0, { what: 'the request was given up' });
      }
      await serves(server);
    });
  });
}
