import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type HangingDatabase, hangingDatabase } from './hanging-database.ts';

const silenceMsMax = 1_000;
let world: HangingDatabase;
beforeAll(async () => {
  world = await hangingDatabase(silenceMsMax);
});
afterAll(() => world?.close());

it('a database that falls silent costs the requests in flight a 503, and serves the next ones when the database answers again', async () => {
  expect((await world.api.call({ url: '/v1/gates' })).status).toBe(200);
  await expectWithin(3 * silenceMsMax, 'a call and /readyz are answered', async () => {
    world.link.freeze();
    const { result, ...time } = await timed(() =>
      Promise.all([world.api.call({ url: '/v1/gates' }), world.api.call({ url: '/readyz', key: null })]),
    );
    const [call, ready] = result;
    expectError(call, 'service_unavailable');
    expect(ready.body).toMatchObject({ status: 'not_ready', database: 'unreachable' });
    world.link.thaw();
    const isServed = async () => (await world.api.call({ url: '/v1/gates' })).status === 200;
    await until(isServed, { what: 'a served call' });
    return time;
  });
  expect((await world.api.call({ url: '/readyz', key: null })).status).toBe(200);
});
