import { describe, expect, it } from 'vitest';
import { KeptBodies, type KeptBody } from '../../../sidecar/intake/kept-bodies.ts';
import { intakeLimits } from '../../../sidecar/intake/limits.ts';

const { keptPlaceBytes } = intakeLimits;

const textOf = ({ bytes }: KeptBody): string => bytes.toString('latin1');
const placeOf = ({ bytes: { buffer, byteOffset } }: KeptBody): unknown[] => [buffer, byteOffset];

describe('bodies that wait for their turn', () => {
  it('are copies of any length, independent of the original bytes', () => {
    const bodies = new KeptBodies();
    const lengths = [0, 1, keptPlaceBytes - 1, keptPlaceBytes, keptPlaceBytes + 1, 3 * keptPlaceBytes];
    const kept = lengths.map((length) => {
      const body = Buffer.alloc(length, `${length}`);
      const copy = bodies.keep(body);
      body.fill(0);
      return copy;
    });
    expect(kept.map(textOf)).toEqual(
      lengths.map((length) => Buffer.alloc(length, `${length}`).toString('latin1')),
    );
  });

  it('have a place alone until they are released, and the next one has it then', () => {
    const bodies = new KeptBodies();
    const [one, other] = [bodies.keep(Buffer.from('one')), bodies.keep(Buffer.from('other'))];
    expect([textOf(one), textOf(other)]).toEqual(['one', 'other']);
    one.release();
    const next = bodies.keep(Buffer.from('a longer one'));
    expect([textOf(next), textOf(other)]).toEqual(['a longer one', 'other']);
    expect(placeOf(next)).toEqual(placeOf(one));
    next.release();
    expect(textOf(bodies.keep(Buffer.from('short')))).toBe('short');
  });
});
