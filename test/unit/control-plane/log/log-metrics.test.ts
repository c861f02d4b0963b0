import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { addLogMetrics } from '../../../../control-plane/log/log-metrics.ts';
import type { PublishedLog } from '../../../../control-plane/log/log-store.ts';
import type { MonotonicMillis, UnixMillis } from '../../../../shared/model/time.ts';

it('counts how long the same entries wait for witnesses, also in a log that is never at rest', async () => {
  const metrics = new Registry();
  let nowMs = 1_000 as MonotonicMillis;
  const clock = { now: () => 0 as UnixMillis, monotonic: () => nowMs };
  const state: { published: PublishedLog | null; witnesses: [] } = { published: null, witnesses: [] };
  addLogMetrics({ metrics, clock, witnesses: { logs: [], witnesses: [], quorum: null } }, state);
  const look = async (afterS: number, size: number, witnessedSize: number) => {
    nowMs = (nowMs + afterS * 1_000) as MonotonicMillis;
    state.published = {
      ...{ log: 1, origin: 'a.example/log', size, published: null, publishedSize: size, publishedAtMs: null },
      ...{ witnessed: null, witnessedSize, witnessedAtMs: null },
    };
    const [value] =
      (await metrics.getSingleMetric('agent_trust_log_unwitnessed_seconds')?.get())?.values ?? [];
    return value?.value;
  };
  expect(await look(0, 10, 10)).toBe(0);
  expect(await look(15, 20, 10)).toBe(0);
  expect(await look(15, 30, 10)).toBe(15);
  expect(await look(15, 40, 10)).toBe(30);
  // The witnesses keep up: what waits now has come since.
  expect(await look(15, 50, 40)).toBe(0);
  expect(await look(15, 60, 50)).toBe(0);
  expect(await look(15, 60, 50)).toBe(15);
  expect(await look(15, 60, 60)).toBe(0);
});
