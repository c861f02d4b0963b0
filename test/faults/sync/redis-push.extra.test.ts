import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seenSidecarsOf } from '../../../control-plane/sync/seen-sidecars.ts';
import { redisBus } from '../../../shared/bus/redis.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { feedChannel, globalFeed } from '../../../shared/wire/sync/sync.ts';
import { expectWithin } from '../../support/base/time-promise.ts';
import { until } from '../../support/base/until.ts';
import { type OverRedis, overRedis } from './over-redis.ts';

let world: OverRedis;
beforeEach(async () => {
  world = await overRedis();
});
afterEach(() => world.close());

const isAgain = (connected: boolean) => () => world.service.deps.bus.isConnected === connected;

describe('a push over Redis', () => {
  it('that is down costs speed and nothing else: within two seconds by the pull, and fast again when it is back', async () => {
    await world.redis.stop();
    await until(isAgain(false), { what: 'Redis is gone' });
    await expectWithin(2_000, 'a change is in force', world.timeOfChange);
    await until(() => world.follower.following.status.connected, { what: 'it follows without Redis' });
    await world.redis.restart();
    await until(isAgain(true), { what: 'Redis is back' });
    await world.timeOfChange();
    await world.expectFastChanges();
  });

  it('that a Redis which has stopped answering holds back is made up for by the pull', async () => {
    await world.redis.pause();
    await expectWithin(2_000, 'a change is in force', world.timeOfChange);
    world.redis.resume();
    await until(isAgain(true), { what: 'Redis answers again' });
    await world.timeOfChange();
  });
});

it('an attacker who can write to Redis cannot make sidecars flood the control plane with pulls', async () => {
  const intruder = redisBus({ url: world.redis.url, logger: silentLogger });
  await until(() => intruder.isConnected, { what: 'the intruder is in' });
  // So each pull is acknowledged, and not only one with a new position.
  seenSidecarsOf(world.service.deps).isKept = false;
  let pulls = 0;
  const client = world.service.deps.bus;
  const stop = await client.subscribe('agent-trust:ack', () => {
    pulls++;
  });
  const startedAtMs = performance.now();
  let sent = 0;
  await until(
    () => {
      intruder.publish(feedChannel(globalFeed), 'nonsense');
      sent++;
      return performance.now() - startedAtMs > 500 && pulls > 2;
    },
    { what: 'half a second of nonsense, and some pulls' },
  );
  const tookMs = performance.now() - startedAtMs;
  await stop();
  await intruder.close();
  expect(sent).toBeGreaterThan(pulls);
  // Every pull acknowledges; 25 ms apart there is room for so many, and twice that is some slack.
  expect(pulls).toBeLessThan((2 * tookMs) / 25);
});
