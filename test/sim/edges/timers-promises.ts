import { theLoop, theProcess } from '../loop.ts';

/** In place of `node:timers/promises`. */
export const setImmediate = (): Promise<void> =>
  new Promise((resolve) => {
    theLoop().schedule(theProcess(), 0, 'io', resolve);
  });
