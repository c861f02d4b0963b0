import { findPresentedKeys, type PresentedKey } from '../api-keys/api-key-store.ts';
import type { BaseDeps } from '../base/deps.ts';

/**
 * Looks up the keys of all requests that arrive in one turn of the event loop with one query, because a query
 * per request costs more than the rest of admission. The query is sent after all of them have arrived, so a
 * key deleted before is valid for none.
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
