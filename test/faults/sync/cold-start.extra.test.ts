import { expect, it } from 'vitest';
import { insertRevoked } from '../../../bench/harness/passports.ts';
import { until } from '../../support/base/until.ts';
import { startFollowed } from './set-up.ts';

it('a start from disk frees memory after a large snapshot, and not after a small one', async () => {
  const service = await startFollowed('none');
  const first = await service.follow();
  await first.isUpToDate();
  await first.stop();
  await service.goAway();
  const small = await service.follow({ folder: first.folder, sidecarId: first.sidecarId });
  await small.following.ready;
  await service.comeBack();
  await small.isUpToDate();
  const { passport_id } = await service.api.issuePassport();
  await insertRevoked(service.deps.sql, passport_id, { from: 1, last: 60_000 });
  const large = await service.follow();
  await until(() => large.freed === 1, { what: 'it has written its first snapshot' });
  await large.stop();
  await service.goAway();
  const after = await service.follow({ folder: large.folder, sidecarId: large.sidecarId });
  await until(() => after.freed === 1, { what: 'memory is freed' });
  expect(after.replica.standingCount).toBeGreaterThanOrEqual(60_000);
  expect(small.freed).toBe(0);
  await service.close();
});
