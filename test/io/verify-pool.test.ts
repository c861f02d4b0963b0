import { afterEach, describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type VerifyPool, verifyPool } from '../../sidecar/verify/pool.ts';
import { isValidAt, type VerifyJob } from '../../sidecar/verify/verify-task.ts';

const signer = chooseEd25519().signer(new Uint8Array(32).fill(9));

function job(options: { readonly isValid: boolean }): VerifyJob {
  const signedText = 'header.claims';
  const signature = signer.sign(Buffer.from(signedText)).slice();
  if (!options.isValid) signature[40] = (signature[40] ?? 0) ^ 1;
  return { signedText, signature, publicKey: signer.publicKey, algorithm: null };
}

describe('the verification threads', () => {
  let pool: VerifyPool | null = null;
  afterEach(() => pool?.close());

  it('answer one bit for each token of a task', async () => {
    pool = verifyPool({ threads: 1, logger: silentLogger });
    await pool.ready();
    const valid = await pool.verify([
      job({ isValid: false }),
      job({ isValid: true }),
      job({ isValid: false }),
    ]);
    expect([0, 1, 2].map((i) => isValidAt(valid, i))).toEqual([false, true, false]);
  });

  it('are replaced on demand: tasks in flight are rejected, later ones are answered', async () => {
    pool = verifyPool({ threads: 1, logger: silentLogger });
    const underWay = pool.verify([job({ isValid: true })]);
    pool.restart();
    await expect(underWay).rejects.toThrow();
    expect(await pool.verify([job({ isValid: true })])).toBe(1);
  });

  it('reject tasks after the pool is closed', async () => {
    pool = verifyPool({ threads: 1, logger: silentLogger });
    await pool.ready();
    await pool.close();
    await expect(pool.verify([job({ isValid: true })])).rejects.toThrow();
  });
});
