import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { nonceBytes } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UserId } from '../../shared/model/ids.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { base32, findTotpStep, totpSecretBytes, totpUri } from './totp.ts';
import type { UserWithSecrets } from './user-store.ts';

interface SecondFactorRow {
  readonly totpSealed: string | null;
  readonly totpLastStep: number | null;
  readonly recoveryCodeHashes: readonly string[];
}

/**
 * Checks a user's second factor: an unused code of the authenticator app, or a recovery code, which is used
 * up. True without a second factor. The row is locked.
 */
export async function checkSecondFactor(
  tx: Transaction,
  deps: Pick<BaseDeps, 'clock' | 'sealer' | 'random'>,
  { userId, totpEnabled }: UserWithSecrets,
  code: string | null,
): Promise<boolean> {
  if (!totpEnabled) return true;
  if (code === null) return false;
  const [row] = await tx<SecondFactorRow[]>`
    SELECT totp_sealed AS "totpSealed", totp_last_step AS "totpLastStep",
      recovery_code_hashes AS "recoveryCodeHashes"
    FROM users WHERE user_id = ${userId}`;
  const { totpSealed, totpLastStep, recoveryCodeHashes } = must(row, 'the row is locked');
  const secret = openSecret(deps, userId, must(totpSealed, 'a second factor has a secret'));
  const step = findTotpStep(secret, code, deps.clock.now());
  if (step !== null && step > (totpLastStep ?? 0)) {
    await tx`UPDATE users SET totp_last_step = ${step} WHERE user_id = ${userId}`;
    return true;
  }
  const hash = hashRecoveryCode(code);
  if (!recoveryCodeHashes.includes(hash)) return false;
  await tx`
    UPDATE users SET recovery_code_hashes = array_remove(recovery_code_hashes, ${hash}) WHERE user_id = ${userId}`;
  return true;
}

/** A new secret, not yet confirmed by a code of the app. */
export interface PendingSecondFactor {
  readonly secret: string;
  readonly uri: string;
}

/** A new secret for a user without a second factor; an earlier one that was never confirmed ends. */
export async function beginSecondFactor(
  tx: Transaction,
  deps: SealDeps,
  { userId, email }: Pick<UserWithSecrets, 'userId' | 'email'>,
): Promise<PendingSecondFactor> {
  const secret = deps.random.bytes(totpSecretBytes);
  await tx`UPDATE users SET totp_sealed = ${sealSecret(deps, userId, secret)} WHERE user_id = ${userId}`;
  return { secret: base32(secret), uri: totpUri(secret, email) };
}

/**
 * Activates the secret after a valid code, and returns the recovery codes, which are stored as hashes only.
 * Null: wrong code, or no pending secret.
 */
export async function confirmSecondFactor(
  tx: Transaction,
  deps: SealDeps & Pick<BaseDeps, 'clock'>,
  userId: UserId,
  code: string,
): Promise<readonly string[] | null> {
  const [row] = await tx<Pick<SecondFactorRow, 'totpSealed'>[]>`
    SELECT totp_sealed AS "totpSealed" FROM users WHERE user_id = ${userId}`;
  const sealed = must(row, 'the row is locked').totpSealed;
  const nowMs = deps.clock.now();
  const step = sealed === null ? null : findTotpStep(openSecret(deps, userId, sealed), code, nowMs);
  if (step === null) return null;
  const codes = Array.from({ length: recoveryCodes }, () => newRecoveryCode(deps));
  await tx`
    UPDATE users SET totp_confirmed_at_ms = ${nowMs}, totp_last_step = ${step},
      recovery_code_hashes = ${codes.map(hashRecoveryCode)}
    WHERE user_id = ${userId}`;
  return codes;
}

export async function removeSecondFactor(tx: Transaction, userId: UserId): Promise<void> {
  await tx`
    UPDATE users SET totp_sealed = NULL, totp_confirmed_at_ms = NULL, totp_last_step = NULL,
      recovery_code_hashes = '{}'
    WHERE user_id = ${userId}`;
}

/** They fit on a sheet of paper, and outlast many lost phones. */
const recoveryCodes = 10;
const recoveryCodeBytes = 10;

/** `ABCD-EFGH-IJKL-MNOP`: 80 bits. */
const newRecoveryCode = ({ random }: Pick<BaseDeps, 'random'>): string =>
  (base32(random.bytes(recoveryCodeBytes)).match(/.{4}/g) ?? []).join('-');

/** Written in any case, with or without its hyphens. 80 random bits need no slow hash. */
const hashRecoveryCode = (code: string): string => sha256Hex(code.replaceAll(/[\s-]/g, '').toUpperCase());

type SealDeps = Pick<BaseDeps, 'sealer' | 'random'>;

export const totpSealContext = (userId: UserId): string => `users/${userId}/totp`;

const secretSeal = ({ sealer, random }: SealDeps, userId: UserId) =>
  textSeal(sealer, totpSealContext(userId), () => random.bytes(nonceBytes));

const sealSecret = (deps: SealDeps, userId: UserId, secret: Uint8Array): string =>
  secretSeal(deps, userId).seal(Buffer.from(secret).toString('base64url'));

const openSecret = (deps: SealDeps, userId: UserId, sealed: string): Uint8Array =>
  Buffer.from(secretSeal(deps, userId).open(sealed), 'base64url');
