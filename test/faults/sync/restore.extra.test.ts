import { afterEach, describe, expect, it } from 'vitest';
import { historyOf } from '../../../control-plane/history/history.ts';
import { rotateSigningKey } from '../../../control-plane/signing-keys/rotate-signing-key.ts';
import { limits } from '../../../shared/model/limits.ts';
import { until } from '../../support/base/until.ts';
import { operatorCaller } from '../../support/data/caller.ts';
import { failOver, isRegressed, issue, revoke, statusAt, statusesAt } from './failed-over.ts';
import { type Followed, startFollowed } from './set-up.ts';

let service: Followed;
afterEach(() => service.close());

describe('a failover that loses two changes which the sidecar has applied', () => {
  it.each([
    ['smaller than', 1],
    ['greater than', 3],
  ])('keeps what was lost in force, also where the new head is %s its own', async (_how, count) => {
    const failed = await failOver('none');
    service = failed.service;
    const { follower, kept, lost, lostLast } = failed;
    // The last says once more what was lost: where two are new, the same change at the same revision.
    const revoked = [await issue(service), await issue(service)].slice(0, count - 1).concat(lostLast);
    for (const each of revoked) await revoke(service, each);
    await service.comeBack();
    await until(() => follower.replica.holdsFloor, { what: 'it is noticed' });
    await follower.isUpToDate();
    expect(new Set(statusesAt(follower, [kept, lost, lostLast, ...revoked]))).toEqual(new Set(['revoked']));
    await until(() => isRegressed(service), { what: 'the control plane knows' });
  });

  it('and after the sidecar was started again, until a recovery begins a new history', async () => {
    const failed = await failOver('none');
    service = failed.service;
    const { follower, kept, lost } = failed;
    await service.comeBack();
    await until(() => isRegressed(service), { what: 'the control plane knows' });
    await follower.isUpToDate();
    await follower.stop();
    const again = await service.follow({ folder: follower.folder, sidecarId: follower.sidecarId });
    await again.isUpToDate();
    expect(statusesAt(again, [kept, lost])).toEqual(['revoked', 'revoked']);
    await again.stop();
    const cold = await service.follow({ folder: follower.folder, sidecarId: follower.sidecarId });
    await service.goAway();
    await service.comeBack();
    await cold.isUpToDate();
    expect(statusesAt(cold, [kept, lost])).toEqual(['revoked', 'revoked']);
    await service.deps.sql`INSERT INTO generations (number, generation, begun_at_ms)
      VALUES (2, ${`gen_${'2'.repeat(32)}`}, 1)`;
    await historyOf(service.deps.sql).refresh();
    await until(() => statusAt(cold, lost) === 'active', { what: 'it follows the new history' });
    expect(statusAt(cold, kept)).toBe('revoked');
    expect(cold.replica.holdsFloor).toBe(false);
  });

  it('never has new changes in force on top of the lost ones, though their numbers fit and they are pushed', async () => {
    const failed = await failOver('same process');
    service = failed.service;
    const { follower, kept, lost, appliedRevision } = failed;
    const revoked = [await issue(service), await issue(service), await issue(service)];
    for (const each of revoked) await revoke(service, each);
    expect(follower.replica.globalRevision).toBe(appliedRevision);
    await service.comeBack();
    await until(() => follower.replica.holdsFloor, { what: 'it is noticed' });
    await follower.isUpToDate();
    expect(new Set(statusesAt(follower, [kept, lost, ...revoked]))).toEqual(new Set(['revoked']));
  });

  it('and a wait for the next revocation does not end before it is in force', async () => {
    const failed = await failOver('same process');
    service = failed.service;
    const { follower } = failed;
    const passportId = await issue(service);
    await revoke(service, await issue(service));
    // However long it has been away: who is taken for gone is not waited for.
    await service.deps.sql`UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms + 60000`;
    await service.comeBack();
    const { body } = await service.call('POST', `/passports/${passportId}/revoke?wait_ms=5000`, {});
    expect(body).toMatchObject({ propagation: { sidecars: 1, acknowledged: 1 } });
    expect(statusAt(follower, passportId)).toBe('revoked');
  });
});

describe('a database that was restored to before a sidecar had connected', () => {
  it('does not let an older process come back: the two would drive each other out for ever', async () => {
    service = await startFollowed('none');
    const older = await service.follow();
    await older.isUpToDate();
    const newer = await service.follow({ sidecarId: older.sidecarId });
    await until(() => older.following.status.superseded, { what: 'the older one stops' });
    expect(older.following.mustNotServe).toContain('Another process');
    await newer.isUpToDate();
    await service.deps.sql`DELETE FROM sidecars`;
    await revoke(service, await issue(service));
    await newer.isUpToDate();
    expect(newer.following.status.superseded).toBe(false);
    expect(older.following.status.superseded).toBe(true);
  });
});

describe('a sidecar that was away for longer than changes are kept', () => {
  it('accepts nothing after a compromise, and decides nothing on its state on disk', async () => {
    service = await startFollowed('none');
    const before = await service.follow();
    await before.isUpToDate();
    await before.stop();
    // The replacement has taken over, and no change that tells of it is left.
    await rotateSigningKey(service.api.deps, await operatorCaller(service.api.deps), {
      purpose: 'sync',
      isCompromised: true,
    });
    const { sql, signingKeys } = service.deps;
    await sql`
      UPDATE signing_keys SET not_before_ms = not_before_ms - ${limits.signingKeyLeadMs},
        retired_at_ms = retired_at_ms - ${limits.signingKeyLeadMs} WHERE purpose = 'sync'`;
    await signingKeys.reload();
    await revoke(service, await issue(service));
    await sql`DELETE FROM changes`;
    const follower = await service.follow({ folder: before.folder, sidecarId: before.sidecarId });
    await until(() => follower.replica.refusedCount > 1, { what: 'the snapshot is refused' });
    expect(follower.isReady).toBe(false);
    expect(follower.following.mustNotServe).toContain('contradicts the control plane');
    expect(follower.following.status.lastProblem).toContain('trusted sync key');
  });
});
