import type { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { noForeignIssuers } from '../../shared/verification/foreign-issuers.ts';
import { type VerifyPool, verifyPool } from '../../sidecar/verify/pool.ts';
import { verifiedCache } from '../../sidecar/verify/verified-cache.ts';
import { PassportVerifier, type TokenOutcome } from '../../sidecar/verify/verifier.ts';
import { until } from '../support/base/until.ts';
import { authority } from '../support/data/tokens.ts';

const service = authority(1);

describe('the verifier with real threads', () => {
  const threads: Worker[] = [];
  let pool: VerifyPool | null = null;
  const onThread = (thread: Worker) => threads.push(thread);

  afterEach(async () => {
    process.off('worker', onThread);
    await pool?.close();
  });

  function setUp(): PassportVerifier {
    threads.length = 0;
    process.on('worker', onThread);
    pool = verifyPool({ threads: 1, logger: silentLogger });
    return new PassportVerifier({
      keys: () => service.keys,
      cache: verifiedCache(10),
      pool,
      clock: systemClock,
      logger: silentLogger,
      inlineWhenAlone: false,
    });
  }

  /**
   * The next thread may take longer to load on a busy machine than a request may wait; who is told to come
   * again does so.
   */
  const verifies = (verifier: PassportVerifier, token: string) =>
    until(async () => (await outcomeOf(verifier, token)).kind === 'verified', {
      what: 'a verified passport',
    });

  const outcomeOf = (verifier: PassportVerifier, token: string): Promise<TokenOutcome> =>
    new Promise((resolve) => verifier.verify(token, { mode: 'live', issuers: noForeignIssuers }, resolve));

  it('permits nothing of a thread that dies over its task, and verifies the same token with the next thread', async () => {
    const verifier = setUp();
    const token = service.token();
    const lost = outcomeOf(verifier, token);
    // After the turn in which the task was handed over; the thread is still loading then.
    await new Promise((resolve) => setImmediate(resolve));
    await must(threads[0], 'the pool has started its thread').terminate();
    expect(await lost).toEqual({ kind: 'unavailable' });
    expect(verifier.known(token)).toBeNull();
    await verifies(verifier, token);
  });

  it('survives a thread that dies while it has nothing to do', async () => {
    const verifier = setUp();
    await must(pool, 'set up').ready();
    await must(threads[0], 'the pool has started its thread').terminate();
    await verifies(verifier, service.token());
  });
});
