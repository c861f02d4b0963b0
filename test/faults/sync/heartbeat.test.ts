import { Registry } from 'prom-client';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startPulse } from '../../../control-plane/storage/pulse.ts';
import { heartbeats } from '../../../control-plane/sync/heartbeat.ts';
import { keyset } from '../../../shared/crypto/keyset.ts';
import type { AccountId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../../shared/model/time.ts';
import { type Logger, silentLogger } from '../../../shared/runtime/logger.ts';
import { type FeedId, feedChannel, globalFeed, syncVersion } from '../../../shared/wire/sync/sync.ts';
import { type Heartbeat, parseFeedMessage } from '../../../shared/wire/sync/sync-schema.ts';
import { heartbeatVerifies } from '../../../shared/wire/sync/sync-signature.ts';
import { until } from '../../support/base/until.ts';
import { startOwnApi } from '../../support/service/api.ts';
import { useApi } from '../../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: string;
let beats: Heartbeat[];
let logged: string[];
let heartbeat: { stop(): Promise<void> } | null;
let metrics: Registry;

beforeAll(async () => {
  const account = await api.createAccount();
  accountId = account.accountId;
  await api.call({
    url: '/v1/sync/connect',
    key: account.key,
    body: {
      sync_version: syncVersion,
      sidecar_id: api.deps.random.newId('side', api.deps.clock.now()),
      now_ms: api.deps.clock.now(),
    },
  });
  const feeds: readonly FeedId[] = [globalFeed, ...(await allAccounts())];
  for (const feedId of feeds) {
    await api.deps.bus.subscribe(feedChannel(feedId), (text) => {
      const message = parseFeedMessage(text);
      if (message?.kind === 'heartbeat') beats.push(message);
    });
  }
});
beforeEach(() => {
  beats = [];
  logged = [];
  heartbeat = null;
  metrics = new Registry();
});
afterEach(() => heartbeat?.stop());

const allAccounts = async () =>
  (await api.deps.sql<{ account_id: AccountId }[]>`SELECT account_id FROM accounts`).map(
    (row) => row.account_id,
  );

const start = () => {
  const note = (_fields: object, message: string) => void logged.push(message);
  const logger: Logger = { ...silentLogger, warn: note, info: note, error: note };
  // The end of each round finds the next one due: it looks at its start, and at its end.
  let looks = 0;
  const monotonic = () => (looks++ % 2 === 1 ? limits.heartbeatIntervalMs : 0) as MonotonicMillis;
  const deps = { ...api.deps, metrics, logger };
  heartbeat = startPulse({ ...deps, clock: { ...deps.clock, monotonic } }, [heartbeats(deps)]);
};

/** Connected for as long as a test may take. */
const aheadMs = 60_000;

describe('the heartbeat', () => {
  it('publishes signed heads to the global feed and to each account with a connected sidecar', async () => {
    await api.deps.sql`UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms + ${aheadMs}`;
    const startedAtMs = api.deps.clock.now();
    start();
    await until(() => beats.length >= 2, { what: 'the first round' });
    expect(new Set(beats.map((beat) => beat.feed_id))).toEqual(new Set([globalFeed, accountId]));
    const heads = await api.deps.sql<
      { feed_id: string; revision: number }[]
    >`SELECT feed_id, revision FROM feeds`;
    const keys = keyset(api.deps.ed25519, api.deps.signingKeys.all());
    for (const beat of beats) {
      expect(beat.head).toBe(heads.find((row) => row.feed_id === beat.feed_id)?.revision);
      expect(heartbeatVerifies(keys, beat)).toBe(true);
      expect(heartbeatVerifies(keys, { ...beat, head: beat.head + 1 })).toBe(false);
      expect(beat.at_ms).toBeGreaterThanOrEqual(startedAtMs);
      expect(beat.at_ms).toBeLessThanOrEqual(api.deps.clock.now());
    }
  });

  it('skips an account whose last sidecar has disconnected', async () => {
    await api.deps.sql`
      UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms - ${aheadMs + limits.sidecarConnectedMs + 1}`;
    start();
    await until(() => beats.length >= 2, { what: 'two rounds' });
    expect(new Set(beats.map((beat) => beat.feed_id))).toEqual(new Set([globalFeed]));
  });

  it('pauses while heads cannot be read, logs it once, and resumes', async () => {
    await api.deps.sql`ALTER TABLE feeds RENAME TO feeds_away`;
    start();
    const failed = async () =>
      (await metrics.getSingleMetricAsString('agent_trust_heartbeats_total')).match(/failed"} (\d+)/)?.[1];
    await until(async () => Number(await failed()) >= 2, { what: 'two rounds fail' });
    expect(beats).toEqual([]);
    expect(logged).toEqual(['no heartbeat: the heads of the feeds cannot be read']);
    expect(await metrics.getSingleMetricAsString('agent_trust_heartbeat_failing')).toContain('failing 1');
    await api.deps.sql`ALTER TABLE feeds_away RENAME TO feeds`;
    await until(() => beats.length >= 2, { what: 'it is back' });
    expect(logged.slice(1)).toEqual(['heartbeats go out again']);
    expect(await metrics.getSingleMetricAsString('agent_trust_heartbeat_failing')).toContain('failing 0');
  });

  it('ends when it is stopped', async () => {
    start();
    await heartbeat?.stop();
    const count = beats.length;
    // Whoever had been left behind would run now.
    await new Promise((resolve) => setImmediate(resolve));
    expect(beats).toHaveLength(count);
  });
});
