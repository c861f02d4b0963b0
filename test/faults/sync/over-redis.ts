import type { GateId } from '../../../shared/model/ids.ts';
import { expectWithin, medianOf, type Timed, timeUntil } from '../../support/base/time-promise.ts';
import { type TestRedis, testRedis } from '../../support/peers/redis.ts';
import { type Followed, type Follower, startFollowed } from './set-up.ts';

export interface OverRedis {
  readonly redis: TestRedis;
  readonly service: Followed;
  readonly follower: Follower;
  readonly gateId: GateId;
  /** Changes the gate and measures how long after the control plane's answer the change was in force. */
  timeOfChange(): Promise<Timed>;
  expectFastChanges(): Promise<unknown>;
  close(): Promise<void>;
}

/** A control plane and a sidecar that follows it, with a Redis of their own. */
export async function overRedis(): Promise<OverRedis> {
  const redis = await testRedis();
  const service = await startFollowed({ redisUrl: redis.url });
  const gateId = await service.createGate();
  const follower = await service.follow();
  await follower.isUpToDate();
  const timeOfChange = async (): Promise<Timed> => {
    const version = (follower.gateVersion(gateId) ?? 0) + 1;
    await service.updateGate(gateId, { name: `version ${version}` });
    return timeUntil(() => follower.gateVersion(gateId) === version, `version ${version} is in force`);
  };
  return {
    ...{ redis, service, follower, gateId, timeOfChange },
    expectFastChanges: () =>
      expectWithin(100, 'most changes are in force', async () => {
        const times: Timed[] = [];
        for (let i = 0; i < 5; i++) times.push(await timeOfChange());
        return medianOf(times);
      }),
    close: async () => {
      await service.close();
      await redis.stop();
    },
  };
}
