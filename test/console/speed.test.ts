import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { addGates } from '../../bench/harness/market-and-gates.ts';
import { addUnsignedRecords } from '../../bench/harness/unsigned-records.ts';
import { must } from '../../shared/errors/assert.ts';
import { hourMs } from '../../shared/model/time.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import { isLong, runs } from '../support/base/runs.ts';
import { expectWithin, type Timed } from '../support/base/time-promise.ts';
import { sharedConsole, visit } from '../support/programs/console.ts';
import { operatorOf } from '../support/service/exports.ts';

const size = {
  gates: runs({ short: 1_000, long: 100_000 }),
  records: runs({ short: 10_000, long: 1_000_000 }),
};
/** Until the first page shows everything. */
const loadedMsMax = 1_500;
/** A task that keeps the page from answering the reader, while a list is scrolled. */
const stallMsMax = 100;

/** What the browser notes from the first moment of a page on. Tasks count as long from 50 ms. */
const trace = `
  window.trace = { longestMs: 0, loadedMs: null };
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) trace.longestMs = Math.max(trace.longestMs, duration);
  }).observe({ type: 'longtask', buffered: true });
  new MutationObserver(() => {
    const isLoaded = document.querySelector('h1') !== null && document.querySelector('[data-waiting]') === null;
    trace.loadedMs = isLoaded ? (trace.loadedMs ?? performance.now()) : null;
  }).observe(document, { childList: true, subtree: true, attributes: true });
`;

interface Trace {
  readonly longestMs: number;
  readonly loadedMs: number | null;
}

const world = sharedConsole();
let page: Page;

beforeAll(async () => {
  await seed();
  page = await world.open({ role: 'owner' });
  await page.addInitScript(trace);
});

async function seed(): Promise<void> {
  const { api } = world;
  const { sql } = api.deps;
  const nowMs = api.deps.clock.now();
  const gateIds = await addGates(sql, size.gates);
  const agents = await Promise.all(Array.from({ length: 10 }, () => api.issuePassport()));
  const owner = await operatorOf(api);
  const passportIds = agents.map(({ passport_id }) => passport_id);
  // In parts, because the driver gives up a statement that is not answered for seconds.
  const count = Math.min(size.records, 50_000);
  for (let from = 0; from < size.records; from += count) {
    await addUnsignedRecords(sql, {
      ...{ owner, passportIds, gateIds: gateIds.slice(0, 100), from, count },
      startMs: nowMs - size.records,
    });
  }
  // What the chart is made of: each outcome of each of a hundred gates in each hour of a day.
  await sql`
    INSERT INTO decision_counts (account_id, mode, step, starts_at_ms, gate_id, decision, reason, decisions)
    SELECT ${owner.accountId}, 'live', 'hour', ${nowMs - (nowMs % hourMs)}::bigint - hour * ${hourMs}::bigint, gate, decision, reason, 100
    FROM generate_series(0, 23) AS hour, unnest(${gateIds.slice(0, 100)}::text[]) AS gate,
      (VALUES ('PERMIT', ''), ('BLOCK', 'spend_limit_exceeded'), ('BLOCK', 'passport_revoked')) AS outcome (decision, reason)`;
  await sql`ANALYZE`;
}

const traceOf = (): Promise<Trace> => page.evaluate<Trace>('trace');

/** Holds a promise about time where the lane is for that; else only that it could be measured. */
async function hold(boundMs: number, what: string, attempt: () => Promise<Timed>): Promise<void> {
  const timed = isLong ? await expectWithin(boundMs, what, attempt) : await attempt();
  console.info(`${what}, with ${size.gates} gates and ${size.records} records: ${Math.round(timed.ms)} ms`);
}

describe('the console before a large account', () => {
  it('shows all of the first page in time', async () => {
    await hold(loadedMsMax, 'the first page', async () => {
      const stalledMs = measureStall();
      await visit(page, '/');
      return { ms: must((await traceOf()).loadedMs, 'it was loaded'), stalledMs: stalledMs() };
    });
  });

  it.each([
    ['/gates', 'Gates'],
    ['/attestations', 'Attestations'],
  ])('scrolls a long list without a stall, and keeps few rows: %s', async (path, label) => {
    await hold(stallMsMax, `the longest task while ${path} is scrolled`, async () => {
      await visit(page, path);
      await page.evaluate('trace.longestMs = 0');
      const stalledMs = measureStall();
      const rows = page.getByRole('table', { name: label }).getByRole('row');
      for (let step = 0; step < runs({ short: 5, long: 60 }); step++) {
        await page.mouse.wheel(0, 1_500);
        await page.evaluate(
          'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))',
        );
      }
      expect(await page.evaluate<number>('scrollY')).toBeGreaterThan(3_000);
      expect(await rows.count()).toBeLessThan(80);
      return { ms: (await traceOf()).longestMs, stalledMs: stalledMs() };
    });
  });
});
