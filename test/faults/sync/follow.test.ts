import { afterEach, describe, expect, it } from 'vitest';
import { makeSigningKey, openSigningKey } from '../../../control-plane/signing/sealed-signing-key.ts';
import { insertSigningKey, publicHalf } from '../../../control-plane/signing/signing-key-store.ts';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import { connectSidecar } from '../../../control-plane/sync/sidecar-store.ts';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import { must } from '../../../shared/errors/assert.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { VerificationKey } from '../../../shared/model/signing-key.ts';
import { globalFeed } from '../../../shared/wire/sync.ts';
import type { Change } from '../../../shared/wire/sync-schema.ts';
import { replicaLimits } from '../../../sidecar/replica/limits.ts';
import { expectWithin, medianOf, type Timed, timeUntil } from '../../support/time-promise.ts';
import { until } from '../../support/until.ts';
import { type Followed, type Push, startFollowed } from './set-up.ts';

let service: Followed;
afterEach(() => service.close());

const revocation = (): Change => ({
  kind: 'passport.standing',
  body: {
    passport: idDigest(service.deps.random.newId('pass', service.deps.clock.now())),
    standing: 'revoked',
    expired_by_day: null,
  },
});
const revokeSomebody = () =>
  changeTransaction(service.deps, (_tx, change) => change(globalFeed, revocation()));

describe.each<{ push: Push }>([{ push: 'same process' }, { push: 'none' }])(
  'with push: $push',
  ({ push }) => {
    it('a change is in force at every sidecar within the time that contract §4 allows', async () => {
      service = await startFollowed(push);
      const gateId = await service.createGate();
      const followers = [await service.follow(), await service.follow()];
      for (const follower of followers) await follower.isUpToDate();
      let version = 1;
      const change = async (): Promise<Timed> => {
        version += 1;
        await service.updateGate(gateId, { name: `version ${version}` });
        const isInForce = () => followers.every((follower) => follower.gateVersion(gateId) === version);
        return timeUntil(isInForce, `version ${version} is in force`);
      };
      await expectWithin(100, 'most changes are in force', async () => {
        const changes: Timed[] = [];
        for (let n = 0; n < 5; n++) changes.push(await expectWithin(2_000, 'a change is in force', change));
        return medianOf(changes);
      });
    });

    it('a revocation that waits for its acknowledgements gets them', async () => {
      service = await startFollowed(push);
      const followers = [await service.follow(), await service.follow()];
      for (const follower of followers) await follower.isUpToDate();
      const issued = await service.api.issuePassport({}, service.adminKey);
      const { body } = await service.call('POST', `/passports/${issued.passport_id}/revoke?wait_ms=5000`, {});
      expect(body).toMatchObject({ propagation: { sidecars: 2, acknowledged: 2 } });
    });
  },
);

describe('without any push', () => {
  it('a change is applied in a turn behind that of its message, and requests come in between', async () => {
    service = await startFollowed('none');
    let isInForce = () => false;
    const atTheEndOfTheTurn: boolean[] = [];
    const follower = await service.follow({
      onChanges: ({ entries }) => {
        // Behind all that the message itself has asked for in this turn.
        if (entries.length > 0)
          process.nextTick(() => setImmediate(() => atTheEndOfTheTurn.push(isInForce())));
      },
    });
    await follower.isUpToDate();
    for (let change = 1; change <= 3; change += 1) {
      const next = follower.replica.globalRevision + 1;
      isInForce = () => follower.replica.globalRevision >= next;
      await revokeSomebody();
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
      const revision = await revokeSomebody();
      return timeUntil(() => follower.replica.globalRevision === revision, 'the change is in force');
    });
  });

  it('learns that its own account is suspended, and that it is not any more', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    const setStatus = (status: string) =>
      service.api.call({ method: 'PUT', url: `/v1/accounts/${service.accountId}`, body: { status } });
    await setStatus('suspended');
    await until(() => follower.replica.isAccountSuspended, { what: 'the suspension is in force' });
    await setStatus('active');
    await until(() => !follower.replica.isAccountSuspended, { what: 'the end of it is in force' });
  });
});

describe('while the control plane is away', () => {
  it('decides on the last known state, whose age grows, and is current soon after', async () => {
    service = await startFollowed('same process');
    const gateId = await service.createGate();
    const follower = await service.follow();
    await follower.isUpToDate();
    await until(() => follower.following.status.connected, { what: 'it follows' });
    await service.goAway();
    await until(() => !follower.following.status.connected, { what: 'it is noticed' });
    expect(follower.following.status.lastProblem).not.toBeNull();
    const ageMs = follower.following.status.stateAgeMs;
    await until(() => follower.following.status.stateAgeMs > ageMs + 300, { what: 'the age grows' });
    expect(follower.gateVersion(gateId)).toBe(1);
    expect(follower.isReady).toBe(true);
    const revision = await revokeSomebody();
    await service.comeBack();
    await until(() => follower.following.status.connected, { what: 'it is followed again' });
    expect(follower.replica.globalRevision).toBe(revision);
    expect(follower.following.status).toMatchObject({ lastProblem: null });
    expect(follower.following.status.stateAgeMs).toBeLessThan(limits.stateAgeL3MsMax);
  });

  it('is made up for in steps, between which requests have their turn', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    await service.goAway();
    const changes = 5 * replicaLimits.changesPerTurnMax;
    const firstRevision = follower.replica.globalRevision;
    for (let change = 0; change < changes; change += 1) await revokeSomebody();
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

  it('starts when it comes back, if there is nothing on disk', async () => {
    service = await startFollowed('none');
    await service.goAway();
    const follower = await service.follow();
    await until(() => follower.following.status.lastProblem !== null, { what: 'the first call fails' });
    expect(follower.isReady).toBe(false);
    expect(follower.replica.accountId).toBeNull();
    await service.comeBack();
    await follower.following.ready;
    expect(follower.replica.accountId).toBe(service.accountId);
  });
});

describe('a database that was restored', () => {
  it('resets the sidecars to its own state', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await revokeSomebody();
    const kept = await revokeSomebody();
    await revokeSomebody();
    await follower.isUpToDate();
    const { sql } = service.deps;
    await sql`DELETE FROM changes WHERE feed_id = ${globalFeed} AND revision > ${kept}`;
    await sql`UPDATE feeds SET revision = ${kept} WHERE feed_id = ${globalFeed}`;
    await until(() => follower.replica.globalRevision === kept, { what: 'the sidecar goes back' });
  });

  it('or that has forgotten the changes a sidecar lacks, gives it a snapshot', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    await service.goAway();
    const revision = await revokeSomebody();
    await service.deps.sql`DELETE FROM changes WHERE feed_id = ${globalFeed}`;
    await service.comeBack();
    await until(() => follower.replica.globalRevision === revision, { what: 'the snapshot is loaded' });
  });
});

describe('a second process with the same sidecar id', () => {
  it('takes over, and the first one follows no more and says so', async () => {
    service = await startFollowed('none');
    const first = await service.follow();
    await first.isUpToDate();
    const second = await service.follow({ sidecarId: first.sidecarId });
    await until(() => first.following.status.superseded, { what: 'the first one notices' });
    expect(first.following.status).toMatchObject({ connected: false });
    expect(first.following.status.lastProblem).toContain('sidecar_id');
    await second.isUpToDate();
    const revision = await revokeSomebody();
    await until(() => second.replica.globalRevision === revision, { what: 'the second one follows' });
    expect(first.replica.globalRevision).toBeLessThan(revision);
    expect(second.following.status.superseded).toBe(false);
  });

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
    const revision = await revokeSomebody();
    await until(() => first.replica.globalRevision === revision, { what: 'it follows' });
  });
});

describe('a sync key that was replaced while the sidecar was away', () => {
  it('is trusted where the old one vouched for it, though the snapshot is signed by the new one', async () => {
    service = await startFollowed('none');
    const before = await service.follow();
    await before.isUpToDate();
    await before.stop();
    const next = await newSyncKey();
    await changeTransaction(service.deps, (_tx, change) =>
      change(globalFeed, { kind: 'signing_key.put', body: next.key }),
    );
    await service.goAway();
    await service.comeBack({ signingKeys: next.signingKeys });
    const after = await service.follow({ folder: before.folder, sidecarId: before.sidecarId });
    await after.isUpToDate();
    expect(after.replica.syncKeys.map((key) => key.kid)).toContain(next.key.kid);
    await after.stop();
    // And is pinned from then on.
    const again = await service.follow({ folder: before.folder, sidecarId: before.sidecarId });
    await again.isUpToDate();
    expect(again.replica.refusedCount).toBe(0);
  });

  it('is not trusted without a signature of a trusted key', async () => {
    service = await startFollowed('none');
    const before = await service.follow();
    await before.isUpToDate();
    await before.stop();
    const next = await newSyncKey();
    await service.goAway();
    await service.comeBack({ signingKeys: next.signingKeys });
    const after = await service.follow({ folder: before.folder, sidecarId: before.sidecarId });
    await until(() => after.replica.refusedCount > 0, { what: 'the snapshot is refused' });
    expect(after.replica.syncKeys.map((key) => key.kid)).not.toContain(next.key.kid);
  });

  it('is trusted as soon as the old one vouches for it, also where it has signed changes and snapshots before', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    const next = await newSyncKey();
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

  async function newSyncKey() {
    const { clock, sql, signingKeys } = service.deps;
    const nowMs = clock.now();
    const made = makeSigningKey(service.deps, { purpose: 'sync', notBeforeMs: nowMs, createdAtMs: nowMs });
    await sql.begin((tx) => insertSigningKey(tx, made));
    const key = publicHalf(made);
    const own = openSigningKey(service.deps, made);
    return {
      key,
      signingKeys: {
        current: (purpose: VerificationKey['purpose']) =>
          purpose === 'sync' ? own : signingKeys.current(purpose),
        vouching: () => [own],
        sound: signingKeys.sound,
        bad: () => [],
        all: () => [...signingKeys.all(), key],
        reload: async () => undefined,
      },
    };
  }
});
