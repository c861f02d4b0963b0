import { ApiError } from '../../shared/errors/api-error.ts';

/**
 * Runs the work once its owner has a free slot. Throws `overloaded`, and the work has not begun, if too much
 * of that owner's work waits, or if no slot becomes free in time. `waitMsMax`, in milliseconds: for this
 * work; null: it waits for its turn however long that takes, because it bounds the waits of its callers by
 * itself. Default: the bound of the share.
 */
export type FairShare<Owner> = <T>(
  owner: Owner,
  work: () => Promise<T>,
  waitMsMax?: number | null,
) => Promise<T>;

interface Owned {
  running: number;
  /** In the order in which they came. Each begins the work. */
  readonly waiting: Set<() => void>;
}

interface FairShareBounds {
  readonly atOnceMax: number;
  readonly perOwnerMax: number;
  readonly waitingPerOwnerMax: number;
  /** How long a turn is worth waiting for: no longer than the one who asks waits for the answer. */
  readonly waitMsMax: number;
}

/**
 * Bounds one kind of work that holds a database connection: so much of it runs at once, only a part of that
 * for one owner, and only so much of one owner waits, for so long. Whatever one owner asks for, the
 * connections beyond `atOnceMax` serve everybody else, and the places beyond `perOwnerMax` serve the other
 * owners.
 *
 * The next turn goes to the owner with the fewest running, and among equals to the one that had none for
 * longest. So an owner that asks for little waits for the first turn that ends, however many others wait.
 *
 *     waiting ──a turn──> running ──the work ends──> over
 *        └────the time──> refused
 *
 * Both ways out of `waiting` take the work out of the line at once, so that it gets one of them.
 */
export function fairShare<Owner>(bounds: FairShareBounds): FairShare<Owner> {
  /** Those with work, the one whose turn ended last at the end. */
  const owners = new Map<Owner, Owned>();
  let running = 0;

  const next = (): Owned | null => {
    let found: Owned | null = null;
    for (const own of owners.values()) {
      if (own.waiting.size === 0 || own.running >= bounds.perOwnerMax) continue;
      if (found === null || own.running < found.running) found = own;
    }
    return found;
  };
  const begin = (): void => {
    while (running < bounds.atOnceMax) {
      const own = next();
      if (own === null) return;
      const [first] = own.waiting;
      if (first === undefined) return;
      own.waiting.delete(first);
      running += 1;
      own.running += 1;
      first();
    }
  };
  const end = (owner: Owner, own: Owned): void => {
    running -= 1;
    own.running -= 1;
    owners.delete(owner);
    if (own.running + own.waiting.size > 0) owners.set(owner, own);
    begin();
  };
  const turn = (owner: Owner, own: Owned, waitMsMax: number | null): Promise<void> =>
    new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const first = (): void => {
        clearTimeout(timer);
        resolve();
      };
      own.waiting.add(first);
      begin();
      if (waitMsMax === null || !own.waiting.has(first)) return;
      const giveUp = (): void => {
        own.waiting.delete(first);
        if (own.running + own.waiting.size === 0) owners.delete(owner);
        reject(new ApiError('overloaded'));
      };
      timer = setTimeout(giveUp, waitMsMax).unref();
    });

  return async (owner, work, waitMsMax = bounds.waitMsMax) => {
    const own = owners.get(owner) ?? { running: 0, waiting: new Set() };
    const isFull = own.running + own.waiting.size >= bounds.perOwnerMax + bounds.waitingPerOwnerMax;
    if (isFull) throw new ApiError('overloaded');
    owners.set(owner, own);
    await turn(owner, own, waitMsMax);
    try {
      return await work();
    } finally {
      end(owner, own);
    }
  };
}
