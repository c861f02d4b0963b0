import { afterAll, beforeAll, expect, it } from 'vitest';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { isLong } from '../support/base/runs.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';

const chains = isLong ? 100_000 : 10_000;
/** A checkpoint is due within this of a change (contract §9), whatever else changes. */
const checkpointMsMax = 10_000;

let api: Api;
beforeAll(async () => {
  api = await startOwnApi();
});
afterAll(() => api.close());

it(`publishes in time while ${chains} chains change at once`, async () => {
  const writer = new LogWriter(api.deps, async () => undefined);
  await writer.round(() => false);
  const { sql } = api.deps;
  await sql`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT 'pass_many_' || n, account_id, 'live', 1, 'sha256:' || encode(sha256(n::text::bytea), 'hex')
    FROM accounts, generate_series(1, ${chains}::int) AS n WHERE is_operator`;
  const published = async () => {
    const [row] = await sql<{ size: number }[]>`SELECT published_size AS size FROM log_trees`;
    return row?.size ?? 0;
  };
  let isOver = false;
  let size = await published();
  let sinceMs = performance.now();
  let longestMs = 0;
  const watching = (async () => {
    while (!isOver) {
      const now = await published();
      longestMs = Math.max(longestMs, performance.now() - sinceMs);
      if (now > size) sinceMs = performance.now();
      size = now;
    }
  })();
  for (let pass = 1; pass <= 3; pass++) {
    await writer.round(() => false);
    await writer.round(() => false);
    await sql`UPDATE chains SET sequence = sequence + 1 WHERE chain_id LIKE 'pass_many_%'`;
    sinceMs = performance.now();
  }
  isOver = true;
  await watching;
  expect(await published()).toBeGreaterThanOrEqual(3 * chains);
  expect(longestMs).toBeLessThan(checkpointMsMax);
});
