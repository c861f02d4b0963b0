import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../../control-plane/sync/change-transaction.ts';
import type { GateId } from '../../../shared/model/ids.ts';
import { globalFeed } from '../../../shared/wire/sync/sync.ts';
import { until } from '../../support/base/until.ts';
import { standing } from '../../support/data/model-service.ts';
import { type Followed, type Follower, startFollowed } from './set-up.ts';

let service: Followed;
let before: Follower;
let gateId: GateId;
/** The revision of the global feed that the first process had applied. */
let applied: number;

/**
 * A sidecar that had a snapshot and two changes after it, and is stopped; then the control plane goes away.
 */
beforeEach(async () => {
  service = await startFollowed('none');
  gateId = await service.createGate();
  before = await service.follow();
  await before.isUpToDate();
  await revoke(1);
  applied = await revoke(2);
  await before.isUpToDate();
  await before.stop();
  await service.goAway();
});
afterEach(() => service.close());

const revoke = (n: number) =>
  changeTransaction(service.deps, (_tx, change) => change(globalFeed, standing(n, 'revoked')));

const again = () => service.follow({ folder: before.folder, sidecarId: before.sidecarId });

/** Changes the first file whose name begins so. */
function tamper(name: string, change: (text: string) => string): void {
  const path = join(before.folder, readdirSync(before.folder).find((each) => each.startsWith(name)) ?? '');
  const text = readFileSync(path, 'utf8');
  const changed = change(text);
  if (changed === text) throw new Error(`${name} is as it was`);
  writeFileSync(path, changed);
}

describe('a start while the control plane is away', () => {
  it('decides on the last known state, changes after the snapshot included, and reports an unknown age', async () => {
    const after = await again();
    await after.following.ready;
    expect(after.replica.globalRevision).toBe(applied);
    expect(after.replica.standingCount).toBe(2);
    expect(after.gateVersion(gateId)).toBe(1);
    expect(after.following.status).toMatchObject({ connected: false, stateAgeMs: Number.POSITIVE_INFINITY });
    const revision = await revoke(3);
    await service.comeBack();
    await until(() => after.replica.globalRevision === revision, { what: 'it catches up' });
    await until(() => after.following.status.stateAgeMs < 3_000, { what: 'its age is known' });
    await after.stop();
    await service.goAway();
    const third = await again();
    await third.following.ready;
    expect(third.replica.globalRevision).toBe(revision);
  });

  it('refuses a tampered snapshot, and starts when the control plane is back', async () => {
    tamper('snapshot.json', (text) =>
      text.replace('\\"trust_level\\":\\"L1\\"', '\\"trust_level\\":\\"L2\\"'),
    );
    const after = await again();
    await until(() => after.replica.refusedCount > 0, { what: 'it is refused' });
    expect(after.isReady).toBe(false);
    expect(after.replica.accountId).toBeNull();
    await service.comeBack();
    await after.following.ready;
    expect(after.gateVersion(gateId)).toBe(1);
    await after.isUpToDate();
  });

  it('applies nothing from a changed entry on, and repairs the file afterwards', async () => {
    tamper('changes-', (text) => text.replace('revoked', 'active'));
    const after = await again();
    await after.following.ready;
    expect(after.replica.globalRevision).toBe(applied - 2);
    expect(after.replica.refusedCount).toBe(1);
    await service.comeBack();
    await after.isUpToDate();
    await after.stop();
    await service.goAway();
    const third = await again();
    await third.following.ready;
    expect(third.replica.globalRevision).toBe(applied);
    expect(third.replica.refusedCount).toBe(0);
  });

  it('does not start from disk after the control plane has turned the sidecar away', async () => {
    await service.api.deps.sql`
      UPDATE api_keys SET revoked_at_ms = 1 WHERE account_id = ${service.accountId} AND scopes = '{sidecars:connect}'`;
    await service.comeBack();
    const after = await again();
    await until(() => after.following.status.lastProblem !== null, { what: 'it is turned away' });
    expect(after.following.status.lastProblem).toContain('unauthorized');
    await service.goAway();
    const isAway = () => after.following.status.lastProblem?.includes('unauthorized') === false;
    await until(isAway, { what: 'the control plane is gone' });
    expect(after.isReady).toBe(false);
  });
});
