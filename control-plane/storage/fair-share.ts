import { ApiError } from '../../shared/errors/api-error.ts';

/**
 * Runs the work once its owner has a free slot; throws `overloaded` if too much of that owner's work waits.
 */
export type FairShare<Owner> = <T>(owner: Owner, work: () => Promise<T>) => Promise<T>;

interface Owned {
  running: number;
  readonly waiting: (() => void)[];
}

/**
 * Bounds one kind of work that holds a database connection: so much of it runs at once, only a part of that
 * for one owner, and only so much of one owner waits. Whatever one owner asks for, the connections beyond
 * `atOnceMax` serve everybody else, and the places beyond `perOwnerMax` serve the other owners.
 *
 * The next turn goes to the owner with the fewest running, and among equals to the one that had none for
 * longest. So an owner that asks for little waits for the first turn that ends, however many others wait.
 */
export function fairShare<Owner>(bounds: {
  readonly atOnceMax: number;
  readonly perOwnerMax: number;
  readonly waitingPerOwnerMax: number;
}): FairShare<Owner> {
  /** Those with work, the one whose turn ended last at the end. */
  const owners = new Map<Owner, Owned>();
  let running = 0;

  const next = (): Owned | null => {
    let found: Owned | null = null;
    for (const own of owners.values()) {
      if (own.waiting.length === 0 || own.running >= bounds.perOwnerMax) continue;
      if (found === null || own.running < found.running) found = own;
    }
    return found;
  };
  const begin = (): void => {
    while (running < bounds.atOnceMax) {
      const own = next();
      if (own === null) return;
      running += 1;
      own.running += 1;
      own.waiting.shift()?.();
    }
  };
  const end = (owner: Owner, own: Owned): void => {
    running -= 1;
    own.running -= 1;
    owners.delete(owner);
    if (own.running + own.waiting.length > 0) owners.set(owner, own);
    begin();
  };

  return async (owner, work) => {
    const own = owners.get(owner) ?? { running: 0, waiting: [] };
    const isFull = own.running + own.waiting.length >= bounds.perOwnerMax + bounds.waitingPerOwnerMax;
    if (isFull) throw new ApiError('overloaded');
    owners.set(owner, own);
    await new Promise<void>((resolve) => {
      own.waiting.push(resolve);
      begin();
    });
    try {
      return await work();
    } finally {
      end(owner, own);
    }
  };
}
