import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Sockets } from '../../control-plane/storage/watched-socket.ts';

/**
 * Sockets of the database driver, as it leaves them. An error that nobody can catch fails the whole run of
 * vitest: that it does not is what is tested here.
 */
const toNowhere = { host: ['localhost'], port: [1], path: '/nowhere/.s.PGSQL.5432' };

it('a socket whose listeners are taken off while it connects fails in silence', async () => {
  const socket = new Sockets(1_000).make(toNowhere);
  socket.removeAllListeners();
  await new Promise((resolve) => socket.on('close', resolve));
  expect(socket.destroyed).toBe(true);
});

it('a socket whose listeners are taken off has none of them any more, however often it happens', () => {
  const socket = new Sockets(1_000).make(toNowhere);
  for (const event of ['data', 'close', 'error']) socket.on(event, () => undefined);
  socket.removeAllListeners();
  socket.removeAllListeners('data');
  expect(['data', 'close', 'error'].map((event) => socket.listenerCount(event))).toEqual([0, 0, 1]);
  socket.destroy();
});

it('a socket that is given up before it connects does not connect any more', async () => {
  const socket = new Sockets(1_000).make(toNowhere);
  socket.destroy();
  await nextTurn();
  expect([socket.destroyed, socket.connecting]).toEqual([true, false]);
});
