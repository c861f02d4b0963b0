import { describe, expect, it } from 'vitest';
import { interleave } from '../../support/interleave.ts';

const lane = (name: string, ...seconds: readonly number[]) =>
  seconds.map((each) => ({ lane: name, seconds: each }));
const order = (files: readonly { readonly lane: string; readonly seconds: number }[]) =>
  interleave(files).map((file) => `${file.lane}${file.seconds}`);

describe('the order of test files', () => {
  it('is that of a lane by its durations, the longest first', () => {
    expect(order(lane('a', 1, 30, 0, 4))).toEqual(['a30', 'a4', 'a1', 'a0']);
  });

  it('runs lanes beside each other to their ends, however long each is', () => {
    const files = [...lane('a', 1, 1, 1, 1), ...lane('b', 10, 10, 10, 10)];
    expect(order(files)).toEqual(['a1', 'b10', 'a1', 'b10', 'a1', 'b10', 'a1', 'b10']);
    expect(order([...lane('a', 8, 1, 1), ...lane('b', 4, 4, 2)])).toEqual([
      'a8',
      'b4',
      'b4',
      'a1',
      'b2',
      'a1',
    ]);
  });

  it('leaves no file out, also where all take no time', () => {
    expect(order([...lane('a', 0, 0), ...lane('b', 0)])).toHaveLength(3);
    expect(interleave([])).toEqual([]);
  });
});
