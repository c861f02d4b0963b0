import { afterAll, beforeAll, expect, it } from 'vitest';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import { redisBus } from '../../../shared/bus/redis.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { feedChannel, globalFeed } from '../../../shared/wire/sync/sync.ts';
import type { ChangeEntry } from '../../../shared/wire/sync/sync-schema.ts';
import { expectWithin, timeUntil } from '../../support/base/time-promise.ts';
import { until } from '../../support/base/until.ts';
import { gateBody, ModelService, standing } from '../../support/data/model-service.ts';
import { type OverRedis, overRedis } from './over-redis.ts';

let world: OverRedis;
beforeAll(async () => {
  world = await overRedis();
});
afterAll(() => world?.close());

it('a push over Redis has a change in force within 100 ms of its answer', () => world.expectFastChanges());

it('a replica that misses one push notices by the next one and pulls both', async () => {
  const { service, follower } = world;
  const before = follower.replica.standingCount;
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
  expect(follower.replica.standingCount).toBe(before + revoked);
});

it('an attacker who can write to Redis changes nothing with forged, altered, repeated, misplaced or meaningless messages', async () => {
  const { service, follower, gateId } = world;
  const standings = follower.replica.standingCount;
  const intruder = redisBus({ url: world.redis.url, logger: silentLogger });
  await until(() => intruder.isConnected, { what: 'the intruder is in' });
  const publish = (feedId: ChangeEntry['feed_id'], message: unknown) =>
    intruder.publish(feedChannel(feedId), typeof message === 'string' ? message : JSON.stringify(message));
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
  const version = (follower.gateVersion(gateId) ?? 0) + 1;
  await world.timeOfChange();
  await follower.isUpToDate();
  expect(follower.replica.gate(gate.gate_id)).toBeNull();
  expect(follower.gateVersion(gateId)).toBe(version);
  expect(follower.replica.standingCount).toBe(standings);
  await until(() => follower.following.status.lastProblem === null, { what: 'all is well again' });
  await intruder.close();
});
