import { afterEach, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import { connectSidecar } from '../../../control-plane/sync/sidecar-store.ts';
import { must } from '../../../shared/errors/assert.ts';
import { globalFeed } from '../../../shared/wire/sync/sync.ts';
import { replicaLimits } from '../../../sidecar/replica/limits.ts';
import { expectWithin, timeUntil } from '../../support/base/time-promise.ts';
import { until } from '../../support/base/until.ts';
import { type Followed, newSyncKey, startFollowed } from './set-up.ts';

let service: Followed;
afterEach(() => service.close());

describe('without any push', () => {
  it('a change is applied in a turn after that of its message, and requests come in between', async () => {
    service = await startFollowed('none');
    let isInForce = () => false;
    const atTheEndOfTheTurn: boolean[] = [];
    const follower = await service.follow({
      onChanges: ({ entries }) => {
        // After all that the message itself has asked for in this turn.
        if (entries.length > 0)
          process.nextTick(() => setImmediate(() => atTheEndOfTheTurn.push(isInForce())));
      },
    });
    await follower.isUpToDate();
    for (let change = 1; change <= 3; change += 1) {
      const next = follower.replica.globalRevision + 1;
      isInForce = () => follower.replica.globalRevision >= next;
      await service.revokeSomebody();
      await until(isInForce, { what: 'the change is in force' });
    }
    expect(atTheEndOfTheTurn.slice(-3)).toEqual([false, false, false]);
  });

  it('a change is in force within two seconds, though nothing wakes the long poll', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    await service.goAway();
    const deaf = { ...service.deps.bus, subscribe: async () => async () => undefined };
    await service.comeBack({ bus: deaf });
    await until(() => follower.following.status.connected, { what: 'it follows again' });
    await expectWithin(2_000, 'a change is in force', async () => {
      const revision = await service.revokeSomebody();
      return timeUntil(() => follower.replica.globalRevision === revision, 'the change is in force');
    });
  });
});

describe('while the control plane is away', () => {
  it('is made up for in steps, between which requests have their turn', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    await service.goAway();
    const changes = 5 * replicaLimits.changesPerTurnMax;
    const firstRevision = follower.replica.globalRevision;
    for (let change = 0; change < changes; change += 1) await service.revokeSomebody();
    const perTurn: number[] = [];
    let seenRevision = firstRevision;
    let isWatching = true;
    const look = () => {
      const revision = follower.replica.globalRevision;
      if (revision > seenRevision) perTurn.push(revision - seenRevision);
      seenRevision = revision;
      if (isWatching) setImmediate(look);
    };
    look();
    await service.comeBack();
    await until(() => seenRevision === firstRevision + changes, { what: 'all changes are in force' });
    isWatching = false;
    // By changes, and not by a snapshot, which would be one step.
    expect(perTurn).toEqual(Array.from({ length: 5 }, () => replicaLimits.changesPerTurnMax));
  });
});

describe('a database that was restored', () => {
  it('resets the sidecars to its own state', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await service.revokeSomebody();
    const kept = await service.revokeSomebody();
    await service.revokeSomebody();
    await follower.isUpToDate();
    const { sql } = service.deps;
    await sql`DELETE FROM changes WHERE feed_id = ${globalFeed} AND revision > ${kept}`;
    await sql`UPDATE feeds SET revision = ${kept} WHERE feed_id = ${globalFeed}`;
    await until(() => follower.replica.globalRevision === kept, { what: 'the sidecar goes back' });
  });
});

describe('a second process with the same sidecar id', () => {
  it('that turns out never to have been there gives the first one back', async () => {
    service = await startFollowed('none');
    const first = await service.follow();
    await first.isUpToDate();
    const { sidecarId } = first;
    const accountId = must(first.replica.accountId, 'it has a state');
    await connectSidecar(service.deps.sql, { sidecarId, accountId, process: 'late', clockOffsetMs: 0 });
    await until(() => first.following.status.superseded, { what: 'the first one notices' });
    expect(first.following.mustNotServe).toContain('Another process');
    await service.deps.sql`
      UPDATE sidecars SET connection_id = '1.late', connected_at_ms = 1, last_seen_at_ms = 1`;
    first.following.endPause();
    await until(() => first.following.status.connected, { what: 'it is connected again' });
    expect(first.following.status.superseded).toBe(false);
    expect(first.following.mustNotServe).toBeNull();
    const revision = await service.revokeSomebody();
    await until(() => first.replica.globalRevision === revision, { what: 'it follows' });
  });
});

describe('a sync key that was replaced while the sidecar was away', () => {
  it('is trusted as soon as the old one vouches for it, also where it has signed changes and snapshots before', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    const next = await newSyncKey(service.deps);
    await service.goAway();
    await service.comeBack({ signingKeys: next.signingKeys });
    const gateId = await service.createGate();
    await until(() => follower.replica.refusedCount > 1, { what: 'change and snapshot are refused' });
    await changeTransaction(service.deps, (_tx, change) =>
      change(globalFeed, { kind: 'signing_key.put', body: next.key }),
    );
    await until(() => follower.gateVersion(gateId) === 1, { what: 'the change is in force' });
    await follower.isUpToDate();
  });
});
