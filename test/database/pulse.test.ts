import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { dueWorkOf, noteDue, repeatWhenDue, type Work } from '../../control-plane/storage/due-work.ts';
import { type PulsePart, startPulse, wakingPart } from '../../control-plane/storage/pulse.ts';
import { changeTransaction } from '../../control-plane/sync/change-transaction.ts';
import { heartbeats } from '../../control-plane/sync/heartbeat.ts';
import { readChanges } from '../../control-plane/sync/read-changes.ts';
import { seenSidecarsOf } from '../../control-plane/sync/seen-sidecars.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import { globalFeed, syncVersion } from '../../shared/wire/sync/sync.ts';
import { until } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';
import { subscribe } from '../support/service/webhooks.ts';

const api = useApi(startOwnApi);
let loops: Repetition[] = [];
afterEach(async () => {
  for (const each of loops) await each.stop();
  loops = [];
});

const pulse = (parts: readonly PulsePart<never>[]) => loops.push(startPulse(api.deps, parts));

/** A loop that would look by itself only in an hour. */
function loop(work: Work = 'holds'): () => number {
  let rounds = 0;
  const round = async () => {
    rounds += 1;
    return 0;
  };
  loops.push(repeatWhenDue(api.deps.sql, work, { usualMs: 3_600_000, round }));
  return () => rounds;
}

describe('a loop', () => {
  it('is woken by the commit of what it waits for, and not by a transaction that fails', async () => {
    const rounds = loop();
    await until(() => rounds() === 1, { what: 'its first look' });
    const failed = api.deps.sql.begin(async (tx) => {
      noteDue(tx, 'holds');
      throw new Error('no');
    });
    await expect(failed).rejects.toThrow('no');
    await api.deps.sql.begin(async (tx) => {
      noteDue(tx, 'holds');
      await tx`SELECT 1`;
      expect(rounds()).toBe(1);
    });
    await until(() => rounds() === 2, { what: 'a look after the commit' });
  });

  it('is woken by an endpoint that begins anew, and by an account that does', async () => {
    const { accountId, key } = await api.createAccount();
    const { url } = await subscribe(api, { url: 'https://example.com/', events: ['gate.created'] }, key);
    const put = (status: string) => api.call({ method: 'PUT', url, key, body: { status } });
    await put('disabled');
    const rounds = loop('deliveries');
    await until(() => rounds() === 1, { what: 'its first look' });
    await put('enabled');
    await until(() => rounds() === 2, { what: 'a look after the endpoint is enabled' });
    const standing = (status: string) =>
      api.call({ method: 'PUT', url: `/v1/accounts/${accountId}`, key: api.operatorKey, body: { status } });
    await standing('suspended');
    await standing('active');
    await until(() => rounds() === 3, { what: 'a look after the account is active' });
  });

  it('is woken by the pulse as long as something is due, and else left alone', async () => {
    await api.deps.sql`CREATE TABLE due_now (one int)`;
    const rounds = loop();
    let pulses = 0;
    const counting: PulsePart<number> = { ask: (sql) => sql`SELECT 1`, hear: () => void pulses++ };
    pulse([wakingPart('holds', api.deps.sql, (sql) => sql`SELECT FROM due_now`), counting]);
    await until(() => pulses > 0, { what: 'a pulse' });
    expect(rounds()).toBe(1);
    await api.deps.sql`INSERT INTO due_now VALUES (1)`;
    await until(() => rounds() > 1, { what: 'a look' });
    await api.deps.sql`DROP TABLE due_now`;
  });

  it('looks as often as before where no pulse looks for it', async () => {
    expect(dueWorkOf(api.deps.sql).pauseMs(250)).toBe(250);
    pulse([]);
    expect(dueWorkOf(api.deps.sql).pauseMs(250)).toBeGreaterThan(10 * limits.heartbeatIntervalMs);
  });
});

describe('a sidecar with nothing new', () => {
  let accountId: AccountId;
  let connection: { sidecarId: SidecarId; connectionId: string; accountId: AccountId };
  const start = { revision: 0, mark: '' };
  let news = 0;
  const note = (revision = 0) =>
    seenSidecarsOf(api.deps).note(
      connection,
      { account: { ...start, revision }, global: start },
      { news: () => void news++ },
    );
  const lastSeen = async () =>
    (
      await api.deps
        .sql`SELECT last_seen_at_ms AS at FROM sidecars WHERE sidecar_id = ${connection.sidecarId}`
    )[0]?.['at'] as number;

  beforeAll(async () => {
    const account = await api.createAccount();
    accountId = account.accountId as AccountId;
    const sidecarId = api.deps.random.newId('side', api.deps.clock.now());
    const body = { sync_version: syncVersion, sidecar_id: sidecarId, now_ms: api.deps.clock.now() };
    const answer = await api.call({ url: '/v1/sync/connect', key: account.key, body });
    connection = { sidecarId, connectionId: answer.body.connection_id, accountId };
    seenSidecarsOf(api.deps).isKept = true;
  });

  it('is written with all others, and at once where it has applied something', async () => {
    expect(await note()).toBe(true);
    const first = await lastSeen();
    expect(await note()).toBe(true);
    expect([await lastSeen(), news]).toEqual([first, 1]);
    await until(
      async () => {
        await note();
        await seenSidecarsOf(api.deps).write();
        return (await lastSeen()) > first;
      },
      { what: 'a later time' },
    );
    expect(await note(1)).toBe(true);
    expect(news).toBe(2);
  });

  it('has to connect anew once the database does not know it', async () => {
    expect(await note()).toBe(true);
    await api.deps.sql`DELETE FROM sidecars WHERE sidecar_id = ${connection.sidecarId}`;
    expect(await note()).toBe(true);
    await seenSidecarsOf(api.deps).write();
    expect(await note()).toBe(false);
  });

  it('is answered by the pulse, and at once by a change', async () => {
    const { sql, clock } = api.deps;
    const head = async (feedId: string) => {
      const [row] = await sql<{ revision: number; mark: string }[]>`
        SELECT revision, coalesce(signature, '') AS mark FROM feeds
        LEFT JOIN changes USING (feed_id, revision) WHERE feed_id = ${feedId}`;
      return must(row, 'the feed is there');
    };
    const after = { account: await head(accountId), global: await head(globalFeed) };
    await sql`INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms,
        acked_account_revision, acked_global_revision, clock_offset_ms)
      VALUES (${connection.sidecarId}, ${accountId}, '1.x', 1, ${clock.now() + 60_000}, 0, 0, 0)`;
    pulse([heartbeats(api.deps)]);
    const pull = () => readChanges(api.deps, { accountId, after, waitMs: 5 * limits.heartbeatIntervalMs });

    const idle = await pull();
    expect(idle).toMatchObject({ entries: [], global_head: after.global.revision, snapshot_needed: false });
    expect(idle.held_ms).toBeLessThan(3 * limits.heartbeatIntervalMs);
    expect(idle.heads_age_ms).toBeLessThan(limits.heartbeatIntervalMs);

    const pulled = pull();
    await changeTransaction(api.deps, (_tx, change) =>
      change(globalFeed, {
        kind: 'passport.standing',
        body: {
          passport: idDigest(api.deps.random.newId('pass', clock.now())),
          standing: 'revoked',
          expired_by_day: null,
        },
      }),
    );
    expect((await pulled).entries).toHaveLength(1);
    // The pulse before the change knows nothing of it.
    expect((await pull()).entries).toHaveLength(1);
  });
});
