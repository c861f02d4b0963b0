import { isId } from '../../shared/model/ids.ts';
import { isExpired, type UnixMillis } from '../../shared/model/time.ts';
import { findKeyOfToken, type PresentedKey } from '../api-keys/api-key-store.ts';
import type { OAuthDeps } from './deps.ts';

/**
 * The API key of a token, code or refresh token, looked up at every use, so that all of them end with it at
 * once. Null: deleted or expired, or its account is suspended.
 */
export async function findUsableKey(
  { sql, clock }: Pick<OAuthDeps, 'sql' | 'clock'>,
  keyId: string,
): Promise<PresentedKey | null> {
  if (!isId('key', keyId)) return null;
  const key = await findKeyOfToken(sql, keyId);
  return key !== null && isUsable(key, clock.now()) ? key : null;
}

export const isUsable = (
  key: Pick<PresentedKey, 'expiresAtMs' | 'accountStatus'>,
  nowMs: UnixMillis,
): boolean => !isExpired(key, nowMs) && key.accountStatus === 'active';
