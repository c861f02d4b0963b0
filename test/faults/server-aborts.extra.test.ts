import { afterEach, describe, expect, it } from 'vitest';
import { httpLimits } from '../../sidecar/http/limits.ts';
import { until } from '../support/base/until.ts';
import { adapters, start, stopAll } from '../support/peers/server-under-test.ts';
import { describeServerAborts } from './server-aborts.ts';

afterEach(stopAll);

describeServerAborts({ every: 1, rounds: 50 });

describe('a client that falls silent', () => {
  // Both adapters at once: the time is the addon's own and cannot be shortened.
  it('in the midst of its head or body is cut off', async () => {
    const servers = await Promise.all(adapters.map((adapter) => start(adapter)));
    const before = performance.now();
    const cutOff = servers.map(async (server) => {
      const inHead = await server.connect();
      const inBody = await server.connect();
      await inHead.send('POST /echo HTTP/1.1\r\nHost:');
      await inBody.send('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"a"');
      await Promise.all([inHead.closed(), inBody.closed()]);
      await until(() => server.openRequests === 0, { what: 'the request was given up' });
    });
    await Promise.all(cutOff);
    expect(performance.now() - before).toBeGreaterThan(httpLimits.requestSilenceMsMax / 2);
  });
});
