/**
 * Room `control-plane/signing-keys`: rotation of the keys that the room `signing` holds, and certificates for
 * those of sidecars (`certify-sidecar-key.ts`).
 */

import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import type { KeyPurpose, VerificationKey } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderKeyRotation } from '../../shared/wire/api/signing-key.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import { administer, type Changed } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { makeSigningKey } from '../signing/sealed-signing-key.ts';
import {
  endSigningKey,
  insertSigningKey,
  lockSigningKeys,
  publicHalf,
  readSigningKeys,
  type StoredSigningKey,
} from '../signing/signing-key-store.ts';
import { currentKey, hasEnded } from '../signing/signing-keys.ts';
import type { WriteChange } from '../sync/change-transaction.ts';

/** One key takes over from another. */
export interface Rotation {
  readonly next: VerificationKey;
  /** It is retired in the moment in which `next` takes over. */
  readonly previous: VerificationKey;
  /** False: an earlier call began it. */
  readonly isNew: boolean;
}

/**
 * Replaces the key that signs for a purpose (contract §11). The next one is published at once and takes over
 * after `limits.signingKeyLeadMs`: by then all replicas switch at the same moment, and all verifiers know it.
 * The old one is retired and verifies for ever.
 *
 *     new ──published──> coming ──not_before──> current ──the next one's not_before──> retired
 *                           └──────────── declared compromised, each ──┴──────> compromised, at once
 *
 * `isCompromised`: the current key may have leaked. All its signatures are void from now on, and it must not
 * sign for another minute, so the next key takes over at once. A coming key was stored beside it and has
 * signed nothing: it is compromised too.
 *
 * Of concurrent calls, on any replicas, one rotates; the others, and a repeat within
 * `limits.signingKeyLeadMs`, get its result. Otherwise a retry after a lost answer would burn the new key. A
 * compromise is never delayed by an ordinary rotation.
 */
export async function rotateSigningKey(
  deps: RotationDeps,
  caller: Caller,
  { purpose, isCompromised }: { readonly purpose: KeyPurpose; readonly isCompromised: boolean },
): Promise<Rotation> {
  const rotation = await administer(deps, caller, async (tx, change): Promise<Changed<Rotation>> => {
    const { keys, nowMs } = await lockedKeys(tx, deps, purpose);
    const recent = recentRotation(keys, nowMs);
    if (recent !== null && (!isCompromised || recent.previous.compromised)) {
      return { result: recent, audited: null };
    }
    return replaceCurrent({ tx, change, deps, purpose, keys, nowMs }, isCompromised);
  });
  await reloadOwn(deps);
  return rotation;
}

/**
 * Declares one key compromised, by its kid. A retired one: nothing is replaced, and the answer names the
 * current key as the next one. Any other: as `rotateSigningKey` does. A repeat changes nothing, whenever it
 * comes. Throws ApiError for a kid that no key of the purpose has.
 */
export async function compromiseSigningKey(
  deps: RotationDeps,
  caller: Caller,
  { purpose, kid }: { readonly purpose: KeyPurpose; readonly kid: string },
): Promise<Rotation> {
  const rotation = await administer(deps, caller, async (tx, change): Promise<Changed<Rotation>> => {
    const { keys, nowMs } = await lockedKeys(tx, deps, purpose);
    const key = keys.find((each) => each.kid === kid);
    if (key === undefined)
      throw new ApiError('invalid_request', {
        param: 'kid',
        message: `kid names no ${purpose} key. /.well-known/jwks.json and the audit log list them.`,
      });
    if (!hasEnded(key, nowMs)) return replaceCurrent({ tx, change, deps, purpose, keys, nowMs }, true);
    const next = publicHalf(currentKey(keys, nowMs));
    const before: Rotation = { next, previous: publicHalf(key), isNew: false };
    if (key.compromised) return { result: before, audited: null };
    const result: Rotation = { ...before, previous: { ...before.previous, compromised: true } };
    await endSigningKey(tx, result.previous);
    await publishKeys(change, [result.previous]);
    return {
      result,
      audited: {
        operation: 'rotateSigningKey',
        target: kid,
        before: renderKeyRotation(before),
        after: renderKeyRotation(result),
      },
    };
  });
  await reloadOwn(deps);
  return rotation;
}

type RotationDeps = Pick<
  SigningDeps,
  'sql' | 'clock' | 'random' | 'bus' | 'ed25519' | 'sealer' | 'signingKeys' | 'logger'
>;

/** The keys of a purpose, oldest first; no other transaction changes them until this one ends. */
async function lockedKeys(
  tx: Transaction,
  deps: RotationDeps,
  purpose: KeyPurpose,
): Promise<{ readonly keys: readonly StoredSigningKey[]; readonly nowMs: UnixMillis }> {
  await lockSigningKeys(tx);
  const nowMs = deps.clock.now();
  const stored = deps.signingKeys.sound(await readSigningKeys(tx));
  return { keys: stored.filter((key) => key.purpose === purpose), nowMs };
}

interface Replacing {
  readonly tx: Transaction;
  readonly change: WriteChange;
  readonly deps: RotationDeps;
  readonly purpose: KeyPurpose;
  readonly keys: readonly StoredSigningKey[];
  readonly nowMs: UnixMillis;
}

async function replaceCurrent(
  { tx, change, deps, purpose, keys, nowMs }: Replacing,
  isCompromised: boolean,
): Promise<Changed<Rotation>> {
  const leadMs = isCompromised ? 0 : limits.signingKeyLeadMs;
  const takesOverAtMs = (nowMs + leadMs) as UnixMillis;
  const current = currentKey(keys, nowMs);
  const ending = isCompromised ? keys.filter((key) => !hasEnded(key, nowMs)) : [current];
  const end = (key: StoredSigningKey): VerificationKey => ({
    ...publicHalf(key),
    retiredAtMs: takesOverAtMs,
    compromised: isCompromised,
  });

  const next = makeSigningKey(deps, { purpose, notBeforeMs: takesOverAtMs, createdAtMs: nowMs });
  await insertSigningKey(tx, next);
  for (const key of ending) await endSigningKey(tx, end(key));
  // The new key first: where it is the feed's own that ends, it signs the entry about its successor while
  // it is still trusted.
  await publishKeys(change, [publicHalf(next), ...ending.map(end)]);
  const result: Rotation = { next: publicHalf(next), previous: end(current), isNew: true };
  return {
    result,
    audited: {
      operation: 'rotateSigningKey',
      target: next.kid,
      before: null,
      after: renderKeyRotation(result),
    },
  };
}

/** To the sidecars, which do not know the keys of the log. */
async function publishKeys(change: WriteChange, keys: readonly VerificationKey[]): Promise<void> {
  for (const key of keys) {
    if (key.purpose !== 'log') await change(globalFeed, { kind: 'signing_key.put', body: publicHalf(key) });
  }
}

/** The last rotation, if so recent that another call is most likely a retry. */
function recentRotation(keys: readonly StoredSigningKey[], nowMs: UnixMillis): Rotation | null {
  const next = keys.find(({ retiredAtMs }) => retiredAtMs === null);
  if (next === undefined || nowMs - next.createdAtMs >= limits.signingKeyLeadMs) return null;
  // A key that was still coming when its purpose was compromised ends at the same moment, but never was a
  // predecessor.
  const previous = keys.find(
    (key) => key.retiredAtMs === next.notBeforeMs && key.notBeforeMs <= next.notBeforeMs,
  );
  if (previous === undefined) return null;
  return { next: publicHalf(next), previous: publicHalf(previous), isNew: false };
}

/**
 * So that this replica knows the new key before it answers. If this fails it learns of it like the others.
 */
async function reloadOwn({
  signingKeys,
  logger,
}: Pick<SigningDeps, 'signingKeys' | 'logger'>): Promise<void> {
  try {
    await signingKeys.reload();
  } catch (error) {
    logger.warn({ err: error }, 'a rotated signing key could not be loaded yet');
  }
}
