import { afterEach, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import { limits } from '../../../shared/model/limits.ts';
import { globalFeed } from '../../../shared/wire/sync/sync.ts';
import { expectWithin, medianOf, type Timed, timeUntil } from '../../support/base/time-promise.ts';
import { until } from '../../support/base/until.ts';
import { type Followed, newSyncKey, startFollowed } from './set-up.ts';

let service: Followed;
afterEach(() => service.close());

describe('with push in the same process', () => {
  it('a change is in force at every sidecar within the time that contract §4 allows', async () => {
    service = await startFollowed('same process');
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
    service = await startFollowed('same process');
    const followers = [await service.follow(), await service.follow()];
    for (const follower of followers) await follower.isUpToDate();
    const issued = await service.api.issuePassport({}, service.adminKey);
    const { body } = await service.call('POST', `/passports/${issued.passport_id}/revoke?wait_ms=5000`, {});
    expect(body).toMatchObject({ propagation: { sidecars: 2, acknowledged: 2 } });
  });
});

describe('without any push', () => {
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
    const revision = await service.revokeSomebody();
    await service.comeBack();
    await until(() => follower.following.status.connected, { what: 'it is followed again' });
    expect(follower.replica.globalRevision).toBe(revision);
    expect(follower.following.status).toMatchObject({ lastProblem: null });
    expect(follower.following.status.stateAgeMs).toBeLessThan(limits.stateAgeL3MsMax);
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
    const revision = await service.revokeSomebody();
    await until(() => second.replica.globalRevision === revision, { what: 'the second one follows' });
    expect(first.replica.globalRevision).toBeLessThan(revision);
    expect(second.following.status.superseded).toBe(false);
  });
});

describe('a sync key that was replaced while the sidecar was away', () => {
  it('is trusted where the old one vouched for it, though the snapshot is signed by the new one', async () => {
    service = await startFollowed('none');
    const before = await service.follow();
    await before.isUpToDate();
    await before.stop();
    const next = await newSyncKey(service.deps);
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
    const next = await newSyncKey(service.deps);
    await service.goAway();
    await service.comeBack({ signingKeys: next.signingKeys });
    const after = await service.follow({ folder: before.folder, sidecarId: before.sidecarId });
    await until(() => after.replica.refusedCount > 0, { what: 'the snapshot is refused' });
    expect(after.replica.syncKeys.map((key) => key.kid)).not.toContain(next.key.kid);
  });
});
