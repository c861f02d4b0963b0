import { describe, expect, it } from 'vitest';
import { IngestQueue } from '../../../../control-plane/attestations/ingest-queue.ts';
import type { ChainId } from '../../../../shared/model/attestation.ts';

const chain = 'acct_00000000000000000000000001' as ChainId;

describe('places in the queue of batches', () => {
  it('follow the one before them in their epoch, and in their chains', () => {
    const queue = new IngestQueue();
    const first = queue.begin('one epoch');
    const second = queue.begin('one epoch');
    const other = queue.begin('another epoch');
    expect([first.earlier, second.earlier, other.earlier]).toEqual([null, first, null]);
    expect(first.follow([chain]).size).toBe(0);
    expect(other.follow([chain]).get(chain)).toBe(first);
  });

  it('forget those that have ended', () => {
    const queue = new IngestQueue();
    queue.begin('one epoch').end();
    expect(queue.begin('one epoch').earlier).toBeNull();
  });

  it('keep no ended place in memory, though there is never a gap between them', () => {
    const queue = new IngestQueue();
    let newest = queue.begin('one epoch');
    for (let batches = 0; batches < 3; batches++) {
      const next = queue.begin('one epoch');
      newest.end();
      expect(newest.earlier).toBeNull();
      newest = next;
    }
    expect(newest.earlier?.earlier).toBeNull();
  });

  it('wait until those before them hold their locks', async () => {
    const queue = new IngestQueue();
    const first = queue.begin('one epoch');
    const second = queue.begin('one epoch');
    let isNext = false;
    const waiting = second.untilNext().then(() => {
      isNext = true;
    });
    await new Promise(setImmediate);
    expect(isNext).toBe(false);
    first.noteLocked();
    await waiting;
    expect(isNext).toBe(true);
  });
});
