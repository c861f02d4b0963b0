import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { must } from '../../../shared/errors/assert.ts';
import { type TemporaryFolder, temporaryFolder } from './temporary-folder.ts';

/**
 * What is started once for the tests of a file or of a `describe`, and ended after them. It is there from
 * the first hook or test on.
 */
export function useUntilEnd<Started extends object>(
  start: () => Promise<Started>,
  end: (started: Started) => unknown,
): Started {
  let started: Started | null = null;
  beforeAll(async () => {
    started = await start();
  });
  afterAll(async () => {
    if (started !== null) await end(started);
  });
  const own = (): Started => must(started, 'it is used in hooks and tests alone');
  // What is started may be a function: a pool of a database is one.
  const target = (() => undefined) as unknown as Started;
  return new Proxy(target, {
    apply: (_target, self, args) =>
      Reflect.apply(own() as unknown as (...args: unknown[]) => unknown, self, args),
    get: (_target, name) => Reflect.get(own(), name),
    has: (_target, name) => Reflect.has(own(), name),
    set: (_target, name, value) => Reflect.set(own(), name, value),
  });
}

/** A folder of its own for each test of a file or of a `describe`; `renew` removes it and makes another. */
export function useFolder() {
  let folder: TemporaryFolder | null = null;
  const remove = (): void => folder?.remove();
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(remove);
  return {
    get path(): string {
      return must(folder, 'it is used in hooks and tests alone').path;
    },
    remove,
    renew: (): void => {
      remove();
      folder = temporaryFolder();
    },
  };
}
