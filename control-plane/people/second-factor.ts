import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { nonceBytes } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UserId } from '../../shared/model/ids.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { findTotpStep } from './totp.ts';
import type { UserWithSecrets } from './user-store.ts';

interface SecondFactorRow {
  readonly totpSealed: string | null;
  readonly totpLastStep: number | null;
  readonly recoveryCodeHashes: readonly string[];
}

/**
 * Whether the code lets a user in who has a second factor: one of the authenticator app that was not used
 * before, or a recovery code, which is used up. True without a second factor. The caller holds the row.
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

/** Written in any case, with or without its hyphens. 80 bits of chance need no slow hash. */
const hashRecoveryCode = (code: string): string => sha256Hex(code.replaceAll(/[\s-]/g, '').toUpperCase());

type SealDeps = Pick<BaseDeps, 'sealer' | 'random'>;

const secretSeal = ({ sealer, random }: SealDeps, userId: UserId) =>
  textSeal(sealer, `users/${userId}/totp`, () => random.bytes(nonceBytes));

const openSecret = (deps: SealDeps, userId: UserId, sealed: string): Uint8Array =>
  Buffer.from(secretSeal(deps, userId).open(sealed), 'base64url');
