import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import { takeSnapshot } from '../../../control-plane/sync/take-snapshot.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { redisBus } from '../../../shared/bus/redis.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { readDigests } from '../../../shared/crypto/id-digest.ts';
import { idDigestWords } from '../../../shared/model/id-digest.ts';
import type { GateId } from '../../../shared/model/ids.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { feedChannel, globalFeed } from '../../../shared/wire/sync.ts';
import type { ChangeEntry, Snapshot } from '../../../shared/wire/sync-schema.ts';
import { gateBody, ModelService, standing } from '../../support/model-service.ts';
import { type TestRedis, testRedis } from '../../support/redis.ts';
import { expectWithin, medianOf, type Timed, timeUntil } from '../../support/time-promise.ts';
import { until } from '../../support/until.ts';
import { type Followed, type Follower, startFollowed } from './set-up.ts';

let redis: TestRedis;
let service: Followed;
let follower: Follower;
let gateId: GateId;
let version = 1;

beforeEach(async () => {
  redis = await testRedis();
  service = await startFollowed({ redisUrl: redis.url });
  gateId = await service.createGate();
  version = 1;
  follower = await service.follow();
  await follower.isUpToDate();
});
afterEach(async () => {
  await service.close();
  await redis.stop();
});

/** Changes the gate and measures how long after the control plane's answer the change was in force. */
async function timeOfChange(): Promise<Timed> {
  version++;
  await service.updateGate(gateId, { name: `version ${version}` });
  return timeUntil(() => follower.gateVersion(gateId) === version, `version ${version} is in force`);
}

async function medianTimeOfChange(): Promise<Timed> {
  const times: Timed[] = [];
  for (let i = 0; i < 5; i++) times.push(await timeOfChange());
  return medianOf(times);
}

const expectFastChanges = () => expectWithin(100, 'most changes are in force', medianTimeOfChange);
const expectChange = () => expectWithin(2_000, 'a change is in force', timeOfChange);

const isAgain = (connected: boolean) => () => service.deps.bus.isConnected === connected;

describe('a push over Redis', () => {
  it('has a change in force within 100 ms of its answer', async () => {
    await expectFastChanges();
  });

  it('that is down costs speed and nothing else: within two seconds by the pull, and fast again when it is back', async () => {
    await redis.stop();
    await until(isAgain(false), { what: 'Redis is gone' });
    await expectChange();
    await until(() => follower.following.status.connected, { what: 'it follows without Redis' });
    await redis.restart();
    await until(isAgain(true), { what: 'Redis is back' });
    await timeOfChange();
    await expectFastChanges();
  });

  it('catches up at once with changes made during the interruption', async () => {
    await redis.stop();
    await until(isAgain(false), { what: 'Redis is gone' });
    await redis.restart();
    await expectChange();
  });

  it('does not mind that Redis has lost its memory', async () => {
    await redis.flush();
    await expectFastChanges();
  });

  it('that a Redis which has stopped answering holds back is made up for by the pull', async () => {
    await redis.pause();
    await expectChange();
    redis.resume();
    await until(isAgain(true), { what: 'Redis answers again' });
    await timeOfChange();
  });
});

describe('an attacker who can write to Redis', () => {
  let intruder: Bus;
  beforeEach(async () => {
    intruder = redisBus({ url: redis.url, logger: silentLogger });
    await until(() => intruder.isConnected, { what: 'the intruder is in' });
  });
  afterEach(() => intruder.close());

  const publish = (feedId: ChangeEntry['feed_id'], message: unknown) =>
    intruder.publish(feedChannel(feedId), typeof message === 'string' ? message : JSON.stringify(message));

  it('changes nothing with forged, altered, repeated, misplaced or meaningless messages', async () => {
    const forger = new ModelService(chooseEd25519(), service.accountId);
    // Whatever was told before, with the signatures of the service.
    const told = await service.deps.sql<ChangeEntry[]>`
      SELECT feed_id, revision, coalesce(lag(signature) OVER (PARTITION BY feed_id ORDER BY revision), '') AS previous,
        kind, body, signing_key_id, signature FROM changes
      WHERE feed_id IN (${globalFeed}, ${service.accountId}) ORDER BY revision`;
    const next = (feedId: string) =>
      1 + (feedId === globalFeed ? follower.replica.globalRevision : follower.replica.accountRevision);
    const gate = gateBody(77, 1, service.accountId);
    for (const entry of told) {
      publish(entry.feed_id, entry);
      publish(entry.feed_id, { ...entry, revision: next(entry.feed_id) });
      publish(service.accountId, { ...entry, feed_id: service.accountId, revision: next(service.accountId) });
    }
    const put = forger.change('account', { kind: 'gate.put', body: gate });
    publish(service.accountId, { ...put, revision: next(service.accountId) });
    publish(service.accountId, {
      ...put,
      revision: next(service.accountId),
      signing_key_id: service.deps.signingKeys.current('sync').kid,
    });
    publish(globalFeed, { ...forger.change('global', standing(1, 'active')), revision: next(globalFeed) });
    publish(globalFeed, forger.heartbeat('global', service.deps.clock.now()));
    for (const text of ['', 'null', '{', '[]', '{"kind":"heartbeat"}', 'x'.repeat(100_000)])
      publish(globalFeed, text);

    const before = follower.replica.refusedCount;
    await until(() => follower.replica.refusedCount >= before + told.length, { what: 'they have arrived' });
    // And a real change arrives among them.
    await timeOfChange();
    await follower.isUpToDate();
    expect(follower.replica.gate(gate.gate_id)).toBeNull();
    expect(follower.gateVersion(gateId)).toBe(version);
    const { snapshot } = await snapshotOf();
    const counted = snapshot.passport_standings.map(
      ({ passports }) => readDigests(passports).length / idDigestWords,
    );
    expect(follower.replica.standingCount).toBe(counted.reduce((sum, count) => sum + count, 0));
    await until(() => follower.following.status.lastProblem === null, { what: 'all is well again' });
  });

  it('cannot make sidecars flood the control plane with pulls', async () => {
    let pulls = 0;
    const client = service.deps.bus;
    const stop = await client.subscribe('agent-trust:ack', () => {
      pulls++;
    });
    const startedAtMs = performance.now();
    let sent = 0;
    await until(
      () => {
        publish(globalFeed, 'nonsense');
        sent++;
        return performance.now() - startedAtMs > 500 && pulls > 2;
      },
      { what: 'half a second of nonsense, and some pulls' },
    );
    const tookMs = performance.now() - startedAtMs;
    await stop();
    expect(sent).toBeGreaterThan(pulls);
    // Every pull acknowledges; 25 ms apart there is room for so many, and twice that is some slack.
    expect(pulls).toBeLessThan((2 * tookMs) / 25);
  });

  async function snapshotOf() {
    const signed = Buffer.concat(await takeSnapshot(service.deps, service.accountId)).toString();
    return { snapshot: JSON.parse(JSON.parse(signed).snapshot) as Snapshot };
  }
});

describe('a replica that misses one push', () => {
  it('notices by the next one and pulls both', async () => {
    const silent = { ...service.deps, bus: { ...service.deps.bus, publish: () => undefined } };
    let revoked = 0;
    const revoke = (deps: typeof service.deps) => {
      revoked += 1;
      return changeTransaction(deps, (_tx, change) => change(globalFeed, standing(revoked, 'revoked')));
    };
    await expectWithin(900, 'both are in force', async () => {
      await revoke(silent);
      const revision = await revoke(service.deps);
      return timeUntil(() => follower.replica.globalRevision === revision, 'both are in force');
    });
    expect(follower.replica.standingCount).toBe(revoked);
  });
});
