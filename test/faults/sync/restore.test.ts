import { afterEach, expect, it } from 'vitest';
import { until } from '../../support/base/until.ts';
import { failOver, isRegressed, issue, revoke, statusesAt } from './failed-over.ts';
import { type Followed, startFollowed } from './set-up.ts';

let service: Followed;
afterEach(() => service.close());

it('a sidecar keeps in force what a failover has lost, also where the new head is as its own', async () => {
  const failed = await failOver('none');
  service = failed.service;
  const { follower, kept, lost, lostLast } = failed;
  // The last says once more what was lost: where two are new, the same change at the same revision.
  const revoked = [await issue(service), lostLast];
  for (const each of revoked) await revoke(service, each);
  await service.comeBack();
  await until(() => follower.replica.holdsFloor, { what: 'it is noticed' });
  await follower.isUpToDate();
  expect(new Set(statusesAt(follower, [kept, lost, lostLast, ...revoked]))).toEqual(new Set(['revoked']));
  await until(() => isRegressed(service), { what: 'the control plane knows' });
});

it('a sidecar whose own API key was deleted must not decide until it is accepted again; a control plane that is merely away changes nothing', async () => {
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
