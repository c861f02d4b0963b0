import { afterEach, describe, expect, it } from 'vitest';
import { historyOf } from '../../../control-plane/history/history.ts';
import { rotateSigningKey } from '../../../control-plane/signing-keys/rotate-signing-key.ts';
import { digestWordsOf } from '../../../shared/crypto/id-digest.ts';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { limits } from '../../../shared/model/limits.ts';
import { globalFeed } from '../../../shared/wire/sync.ts';
import { operatorCaller } from '../../support/caller.ts';
import { until } from '../../support/until.ts';
import { type Followed, type Follower, type Push, startFollowed } from './set-up.ts';

let service: Followed;
afterEach(() => service.close());

const issue = async (): Promise<string> =>
  (await service.api.issuePassport({}, service.adminKey)).passport_id;

/** Also while nobody listens at the control plane's port. Resolves to the revision. */
async function revoke(passportId: string): Promise<number> {
  const url = `/v1/passports/${passportId}/revoke`;
  const { body } = await service.api.call({ url, key: service.adminKey, body: {} });
  return body.propagation.revision;
}

const statusAt = (follower: Follower, passportId: string) =>
  follower.replica.standing({ digests: digestWordsOf(passportId, '', '') } as VerifiedPassport).status;

const isRegressed = async (): Promise<boolean> => {
  const { body } = await service.api.call({ url: '/readyz', key: null });
  return body.history.state === 'regressed';
};

const statusesAt = (follower: Follower, passportIds: readonly string[]) =>
  passportIds.map((passportId) => statusAt(follower, passportId));

/** A sidecar has applied the revocations of three passports; of the last two nothing is left. */
async function failOver(push: Push) {
  service = await startFollowed(push);
  const follower = await service.follow();
  const [kept, lost, lostLast] = [await issue(), await issue(), await issue()];
  const revision = await revoke(kept);
  await revoke(lost);
  await revoke(lostLast);
  await follower.isUpToDate();
  await service.goAway();
  // As a standby that takes over and lacks the newest commits, acknowledgements included.
  const { sql } = service.deps;
  await sql`UPDATE feeds SET revision = ${revision} WHERE feed_id = ${globalFeed}`;
  await sql`DELETE FROM changes WHERE feed_id = ${globalFeed} AND revision > ${revision}`;
  await sql`UPDATE sidecars SET acked_global_revision = least(acked_global_revision, ${revision})`;
  await sql`
    UPDATE passports SET status = 'active', revoked_at_ms = NULL, revocation_reason = NULL
    WHERE passport_id IN (${lost}, ${lostLast})`;
  return { follower, kept, lost, lostLast, appliedRevision: revision + 2 };
}

describe('a failover that loses two changes which the sidecar has applied', () => {
  it.each([
    ['smaller than', 1],
    ['equal to', 2],
    ['greater than', 3],
  ])('keeps what was lost in force, also where the new head is %s its own', async (_how, count) => {
    const { follower, kept, lost, lostLast } = await failOver('none');
    // The last says once more what was lost: where two are new, the same change at the same revision.
    const revoked = [await issue(), await issue()].slice(0, count - 1).concat(lostLast);
    for (const each of revoked) await revoke(each);
    await service.comeBack();
    await until(() => follower.replica.holdsFloor, { what: 'it is noticed' });
    await follower.isUpToDate();
    expect(new Set(statusesAt(follower, [kept, lost, lostLast, ...revoked]))).toEqual(new Set(['revoked']));
    await until(isRegressed, { what: 'the control plane knows' });
  });

  it('and after the sidecar was started again, until a recovery begins a new history', async () => {
    const { follower, kept, lost } = await failOver('none');
    await service.comeBack();
    await until(isRegressed, { what: 'the control plane knows' });
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
    const { follower, kept, lost, appliedRevision } = await failOver('same process');
    const revoked = [await issue(), await issue(), await issue()];
    for (const each of revoked) await revoke(each);
    expect(follower.replica.globalRevision).toBe(appliedRevision);
    await service.comeBack();
    await until(() => follower.replica.holdsFloor, { what: 'it is noticed' });
    await follower.isUpToDate();
    expect(new Set(statusesAt(follower, [kept, lost, ...revoked]))).toEqual(new Set(['revoked']));
  });

  it('and a wait for the next revocation does not end before it is in force', async () => {
    const { follower } = await failOver('same process');
    const passportId = await issue();
    await revoke(await issue());
    // However long it has been away: who is taken for gone is not waited for.
    await service.deps.sql`UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms + 60000`;
    await service.comeBack();
    const { body } = await service.call('POST', `/passports/${passportId}/revoke?wait_ms=5000`, {});
    expect(body).toMatchObject({ propagation: { sidecars: 1, acknowledged: 1 } });
    expect(statusAt(follower, passportId)).toBe('revoked');
  });
});

describe('a database that was restored to before a sidecar had connected', () => {
  it.each([
    ['an older connection', `UPDATE sidecars SET connection_id = '1.older', connected_at_ms = 1`],
    ['no connection', 'DELETE FROM sidecars'],
  ])('recognises %s: the sidecar reconnects by itself', async (_what, restore) => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    await service.goAway();
    await service.deps.sql.unsafe(restore);
    await revoke(await issue());
    await service.comeBack();
    await follower.isUpToDate();
    await until(() => follower.following.status.connected, { what: 'it is connected' });
    expect(follower.following.status.superseded).toBe(false);
    expect(follower.following.mustNotServe).toBeNull();
  });

  it('does not let an older process come back: the two would drive each other out for ever', async () => {
    service = await startFollowed('none');
    const older = await service.follow();
    await older.isUpToDate();
    const newer = await service.follow({ sidecarId: older.sidecarId });
    await until(() => older.following.status.superseded, { what: 'the older one stops' });
    expect(older.following.mustNotServe).toContain('Another process');
    await newer.isUpToDate();
    await service.deps.sql`DELETE FROM sidecars`;
    await revoke(await issue());
    await newer.isUpToDate();
    expect(newer.following.status.superseded).toBe(false);
    expect(older.following.status.superseded).toBe(true);
  });
});

describe('a sidecar that was away for longer than changes are kept', () => {
  /**
   * Stopped before the key of the feeds was replaced; the replacement has taken over, and no change that
   * tells of it is left.
   */
  async function awayWhile(
    isCompromised: boolean,
  ): Promise<{ revoked: string; again: () => Promise<Follower> }> {
    service = await startFollowed('none');
    const before = await service.follow();
    await before.isUpToDate();
    await before.stop();
    await rotateSigningKey(service.api.deps, await operatorCaller(service.api.deps), {
      purpose: 'sync',
      isCompromised,
    });
    const { sql, signingKeys } = service.deps;
    await sql`
      UPDATE signing_keys SET not_before_ms = not_before_ms - ${limits.signingKeyLeadMs},
        retired_at_ms = retired_at_ms - ${limits.signingKeyLeadMs} WHERE purpose = 'sync'`;
    await signingKeys.reload();
    const revoked = await issue();
    await revoke(revoked);
    await sql`DELETE FROM changes`;
    return { revoked, again: () => service.follow({ folder: before.folder, sidecarId: before.sidecarId }) };
  }

  it('accepts the snapshot after an ordinary rotation, and trusts the new key from then on', async () => {
    const { revoked, again } = await awayWhile(false);
    const follower = await again();
    await follower.following.ready;
    expect(statusAt(follower, revoked)).toBe('revoked');
    expect(follower.replica.refusedCount).toBe(0);
    const next = await issue();
    await revoke(next);
    await follower.isUpToDate();
    expect(statusAt(follower, next)).toBe('revoked');
  });

  it('accepts nothing after a compromise, and decides nothing on its state on disk', async () => {
    const { again } = await awayWhile(true);
    const follower = await again();
    await until(() => follower.replica.refusedCount > 1, { what: 'the snapshot is refused' });
    expect(follower.isReady).toBe(false);
    expect(follower.following.mustNotServe).toContain('contradicts the control plane');
    expect(follower.following.status.lastProblem).toContain('trusted sync key');
  });
});

describe('a sidecar whose own API key was deleted', () => {
  it('must not decide until it is accepted again; a control plane that is merely away changes nothing', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    const setRevoked = (atMs: number | null) => service.deps.sql`
      UPDATE api_keys SET revoked_at_ms = ${atMs} WHERE account_id = ${service.accountId} AND scopes = '{sidecars:connect}'`;
    await service.goAway();
    await until(() => !follower.following.status.connected, { what: 'it is noticed' });
    expect(follower.following.mustNotServe).toBeNull();
    await setRevoked(1);
    await service.comeBack();
    const isDisowned = () => follower.following.mustNotServe !== null;
    await until(isDisowned, { what: 'it is turned away' });
    expect(follower.following.mustNotServe).toContain('API key');
    await setRevoked(null);
    await until(() => !isDisowned(), { what: 'it is accepted again' });
    await until(() => follower.following.status.connected, { what: 'it follows' });
  });

  it('or has lost its scope, neither', async () => {
    service = await startFollowed('none');
    const follower = await service.follow();
    await follower.isUpToDate();
    await service.deps.sql`
      UPDATE api_keys SET scopes = '{gates:read}' WHERE account_id = ${service.accountId} AND scopes = '{sidecars:connect}'`;
    await until(() => follower.following.mustNotServe !== null, { what: 'it is turned away' });
  });
});
