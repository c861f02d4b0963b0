import { randomInt } from 'node:crypto';
import { expect } from 'vitest';

/** The same steps of a model of the simulation and of the real service. */
export interface BesideModel {
  step(): Promise<void>;
  /** Both have come to the same. */
  expectSame(): Promise<void>;
  /** Kinds of answers that there have been. */
  readonly seen: ReadonlySet<string>;
}

/**
 * Plays so many steps of a random seed, which a failure names, and more until each of these answers was seen:
 * what never comes about could not differ.
 */
export async function playBeside(
  start: (seed: bigint) => BesideModel | Promise<BesideModel>,
  { steps, answers = [] }: { readonly steps: number; readonly answers?: readonly string[] },
): Promise<void> {
  const seed = BigInt(randomInt(2 ** 47));
  const both = await start(seed);
  const isOver = (step: number): boolean =>
    step >= 10 * steps || (step >= steps && answers.every((each) => both.seen.has(each)));
  for (let step = 0; !isOver(step); step++) {
    try {
      await both.step();
    } catch (error) {
      throw new Error(`seed ${seed}, step ${step}`, { cause: error });
    }
  }
  await both.expectSame();
  expect([...both.seen]).toEqual(expect.arrayContaining([...answers]));
}
