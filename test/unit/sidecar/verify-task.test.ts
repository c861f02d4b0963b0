import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { verifyLimits } from '../../../sidecar/verify/limits.ts';
import {
  checkTask,
  isValidAt,
  packTask,
  rememberVerifiers,
  type VerifyJob,
} from '../../../sidecar/verify/verify-task.ts';

const ed25519 = chooseEd25519();
const signer = ed25519.signer(new Uint8Array(32).fill(7));

function jobFor(message: Uint8Array, options: { readonly spoil: boolean }): VerifyJob {
  const signature = signer.sign(message).slice();
  if (options.spoil) signature[0] = (signature[0] ?? 0) ^ 1;
  const signedText = Buffer.from(message).toString('latin1');
  return { signedText, signature, publicKey: signer.publicKey, algorithm: null };
}

describe('a verification task', () => {
  it('answers for each job whether its signature is valid, in the order of the jobs', () => {
    const job = fc.record({ message: fc.uint8Array({ maxLength: 200 }), spoil: fc.boolean() });
    fc.assert(
      fc.property(fc.array(job, { maxLength: verifyLimits.verifyBatchMax }), (wanted) => {
        const packed = packTask(wanted.map(({ message, spoil }) => jobFor(message, { spoil })));
        const valid = checkTask(packed, rememberVerifiers(ed25519));
        expect(wanted.map((_, i) => isValidAt(valid, i))).toEqual(wanted.map(({ spoil }) => !spoil));
      }),
      { numRuns: 25 },
    );
  });

  it('carries a full batch, its last bit included', () => {
    const jobs = Array.from({ length: verifyLimits.verifyBatchMax }, (_, i) =>
      jobFor(new Uint8Array([i]), { spoil: i !== verifyLimits.verifyBatchMax - 1 }),
    );
    const valid = checkTask(packTask(jobs), rememberVerifiers(ed25519));
    expect(jobs.map((_, i) => isValidAt(valid, i))).toEqual(
      jobs.map((_, i) => i === verifyLimits.verifyBatchMax - 1),
    );
  });

  it('takes views of a larger buffer and sends only what they show', () => {
    const large = new Uint8Array(100_000);
    const message = large.subarray(50_000, 50_010);
    const packed = packTask([jobFor(message, { spoil: false })]);
    expect(packed.byteLength).toBe(packed.buffer.byteLength);
    expect(packed.byteLength).toBeLessThan(200);
    expect(checkTask(packed, rememberVerifiers(ed25519))).toBe(1);
  });

  it('lets a key that the engine refuses spoil its own job only', () => {
    const message = new Uint8Array([1, 2, 3]);
    const good = jobFor(message, { spoil: false });
    // All zero bytes: a point of small order.
    const valid = checkTask(
      packTask([{ ...good, publicKey: new Uint8Array(32) }, good]),
      rememberVerifiers(ed25519),
    );
    expect([isValidAt(valid, 0), isValidAt(valid, 1)]).toEqual([false, true]);
  });

  it('refuses more jobs than a batch has', () => {
    const job = jobFor(new Uint8Array([1]), { spoil: false });
    expect(() => packTask(Array.from({ length: verifyLimits.verifyBatchMax + 1 }, () => job))).toThrow(
      'at most one batch',
    );
  });
});
