import { describe, expect, it } from 'vitest';
import { IngestTurns } from '../../../../control-plane/attestations/ingest-turns.ts';
import type { ChainId } from '../../../../shared/model/attestation.ts';

const chain = 'acct_00000000000000000000000001' as ChainId;

describe('turns of batches', () => {
  it('follow the one before them in their epoch, and in their chains', () => {
    const turns = new IngestTurns();
    const first = turns.begin('one epoch');
    const second = turns.begin('one epoch');
    const other = turns.begin('another epoch');
    expect([first.earlier, second.earlier, other.earlier]).toEqual([null, first, null]);
    expect(first.follow([chain]).size).toBe(0);
    expect(other.follow([chain]).get(chain)).toBe(first);
  });

  it('forget those that have ended', () => {
    const turns = new IngestTurns();
    turns.begin('one epoch').end();
    expect(turns.begin('one epoch').earlier).toBeNull();
  });

  it('keep no turn in memory that has ended, though there is never a gap between them', () => {
    const turns = new IngestTurns();
    let newest = turns.begin('one epoch');
    for (let batches = 0; batches < 3; batches++) {
      const next = turns.begin('one epoch');
      newest.end();
      expect(newest.earlier).toBeNull();
      newest = next;
    }
    expect(newest.earlier?.earlier).toBeNull();
  });

  it('wait until those before them hold their locks', async () => {
    const turns = new IngestTurns();
    const first = turns.begin('one epoch');
    const second = turns.begin('one epoch');
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
