import { findPresentedKeys, type PresentedKey } from '../api-keys/api-key-store.ts';
import type { BaseDeps } from '../base/deps.ts';

/**
 * Looks up the keys of all requests that arrive in one turn of the event loop with one query: a query of its
 * own for each costs more than the rest of their admission. It is sent after each of them has arrived, so a
 * key that was deleted before is good for none.
 */
export function keyLookUps(deps: Pick<BaseDeps, 'sql'>): (keyHash: string) => Promise<PresentedKey | null> {
  let next: { readonly hashes: Set<string>; readonly found: ReturnType<typeof findPresentedKeys> } | null =
    null;
  const begin = () => {
    const hashes = new Set<string>();
    const found = new Promise((resolve) => setImmediate(resolve)).then(() => {
      next = null;
      return findPresentedKeys(deps.sql, [...hashes]);
    });
    return { hashes, found };
  };
  return async (keyHash) => {
    next ??= begin();
    next.hashes.add(keyHash);
    return (await next.found).get(keyHash) ?? null;
  };
}
