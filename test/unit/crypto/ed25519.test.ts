import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseEd25519, firstWorking } from '../../../shared/crypto/choose-ed25519.ts';
import type { Ed25519 } from '../../../shared/crypto/ed25519.ts';
import { nobleEd25519 } from '../../../shared/crypto/ed25519-noble.ts';
import { nodeEd25519 } from '../../../shared/crypto/ed25519-node.ts';
import { sodiumEd25519 } from '../../../shared/crypto/ed25519-sodium.ts';
import { runs } from '../../support/base/runs.ts';
import {
  bytesOf,
  craft,
  order,
  smallOrderKeys,
  toBytes,
  toNumber,
} from '../../support/data/ed25519-edge-cases.ts';
import { rfc8032Vectors } from '../../vectors/rfc8032.ts';

const engines = [sodiumEd25519(), nodeEd25519(), nobleEd25519()];
const seed = bytesOf('000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
const message = Uint8Array.from(Buffer.from('the message', 'utf8'));

describe.each(engines)('Ed25519 by $name', (engine) => {
  it.each(rfc8032Vectors)('reproduces RFC 8032 $name', (vector) => {
    const signer = engine.signer(bytesOf(vector.seed));
    expect(Buffer.from(signer.publicKey).toString('hex')).toBe(vector.publicKey);
    expect(Buffer.from(signer.sign(bytesOf(vector.message))).toString('hex')).toBe(vector.signature);
    const verify = engine.verifier(bytesOf(vector.publicKey));
    expect(verify(bytesOf(vector.message), bytesOf(vector.signature))).toBe(true);
  });

  it('refuses a signature of every other length', () => {
    const signer = engine.signer(seed);
    const verify = engine.verifier(signer.publicKey);
    const signature = signer.sign(message);
    expect(verify(message, signature)).toBe(true);
    for (let length = 0; length < 64; length++)
      expect(verify(message, signature.subarray(0, length))).toBe(false);
    expect(verify(message, Uint8Array.from([...signature, 0]))).toBe(false);
    expect(verify(message, Uint8Array.from([...signature, ...signature]))).toBe(false);
  });

  it('refuses a second signature made by adding the order to S', () => {
    const signer = engine.signer(seed);
    const signature = signer.sign(message);
    const s = toNumber(signature.subarray(32));
    for (const other of [s + order, order, 0n, (1n << 256n) - 1n]) {
      const forged = Uint8Array.from([...signature.subarray(0, 32), ...toBytes(other)]);
      expect(engine.verifier(signer.publicKey)(message, forged)).toBe(false);
    }
  });

  it.each(smallOrderKeys)('does not import the key %s of small order', (hex) => {
    expect(() => engine.verifier(bytesOf(hex))).toThrow(TypeError);
  });

  it('does not import a key whose y is not below the prime, or of another length', () => {
    // y = p + 3 is the second spelling of y = 3, which is a point of the curve.
    const twin = 'f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f';
    expect(() => engine.verifier(bytesOf(twin))).toThrow(TypeError);
    for (const length of [0, 31, 33, 64])
      expect(() => engine.verifier(new Uint8Array(length).fill(9))).toThrow(TypeError);
    for (const length of [0, 31, 33, 64])
      expect(() => engine.signer(new Uint8Array(length))).toThrow(TypeError);
  });

  it('accepts nothing for a key that is no point of the curve', () => {
    const notOnCurve = bytesOf('0200000000000000000000000000000000000000000000000000000000000000');
    const verify = engine.verifier(notOnCurve);
    expect(verify(message, engine.signer(seed).sign(message))).toBe(false);
  });

  it('is not disturbed when the caller changes its bytes afterwards', () => {
    const ownSeed = Uint8Array.from(seed);
    const signer = engine.signer(ownSeed);
    const ownKey = Uint8Array.from(signer.publicKey);
    const verify = engine.verifier(ownKey);
    const signature = signer.sign(message);
    ownSeed.fill(0);
    ownKey.fill(0);
    expect(signer.sign(message)).toEqual(signature);
    expect(verify(message, signature)).toBe(true);
  });

  it('reads Buffers, views into larger memory and memory shared between threads', () => {
    const signer = engine.signer(seed);
    const verify = engine.verifier(Buffer.from(signer.publicKey));
    const signature = signer.sign(Buffer.from(message));
    const shared = new Uint8Array(new SharedArrayBuffer(200));
    shared.set(message, 3);
    shared.set(signature, 100);
    const sharedMessage = shared.subarray(3, 3 + message.length);
    expect(verify(sharedMessage, shared.subarray(100, 164))).toBe(true);
    expect(signer.sign(sharedMessage)).toEqual(signature);
    expect(verify(sharedMessage, shared.subarray(101, 165))).toBe(false);
  });
});

describe('the three engines together', () => {
  const verdicts = (
    publicKey: Uint8Array,
    text: Uint8Array,
    signature: Uint8Array,
  ): (boolean | 'refused')[] =>
    engines.map((engine) => {
      try {
        return engine.verifier(publicKey)(text, signature);
      } catch (error) {
        if (error instanceof TypeError) return 'refused';
        throw error;
      }
    });
  const agree = (publicKey: Uint8Array, text: Uint8Array, signature: Uint8Array): boolean | 'refused' => {
    const all = verdicts(publicKey, text, signature);
    expect(new Set(all).size, `${engines.map(({ name }) => name)}: ${all}`).toBe(1);
    return all[0] ?? 'refused';
  };
  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });

  it('make the same keys and signatures', () => {
    fc.assert(
      fc.property(bytes(32), fc.uint8Array({ maxLength: 300 }), (anySeed, text) => {
        const [first, ...others] = engines.map((engine) => {
          const signer = engine.signer(anySeed);
          return [Uint8Array.from(signer.publicKey), signer.sign(text)];
        });
        for (const other of others) expect(other).toEqual(first);
        expect(agree(first?.[0] ?? seed, text, first?.[1] ?? seed)).toBe(true);
      }),
      { numRuns: runs({ short: 12, long: 4_000 }) },
    );
  });

  it('say no alike when one bit of key, message or signature is turned', () => {
    const signer = sodiumEd25519().signer(seed);
    const signature = signer.sign(message);
    const parts = { key: signer.publicKey, message, signature };
    fc.assert(
      fc.property(
        fc.constantFrom('key' as const, 'message' as const, 'signature' as const),
        fc.nat(),
        (part, at) => {
          const turned = Uint8Array.from(parts[part]);
          const bit = at % (turned.length * 8);
          turned[bit >> 3] = (turned[bit >> 3] ?? 0) ^ (1 << (bit & 7));
          const now = { ...parts, [part]: turned };
          expect(agree(now.key, now.message, now.signature)).not.toBe(true);
        },
      ),
      { numRuns: runs({ short: 40, long: 12_000 }) },
    );
  });

  it('judge alike what has components of small order, accepting only what cancels out', () => {
    const torsion = fc.integer({ min: 0, max: 7 });
    fc.assert(
      fc.property(
        fc.record({
          secret: fc.bigInt({ min: 1n, max: order - 1n }),
          nonce: fc.oneof(fc.constant(0n), fc.bigInt({ min: 1n, max: order - 1n })),
          keyTorsion: torsion,
          nonceTorsion: torsion,
          message: fc.uint8Array({ maxLength: 8 }),
        }),
        (options) => {
          const { publicKey, message: text, signature } = craft(options);
          const answer = agree(publicKey, text, signature);
          if (options.nonce === 0n) expect(answer).toBe(false);
          else if (options.keyTorsion === 0) expect(answer).toBe(options.nonceTorsion === 0);
        },
      ),
      { numRuns: runs({ short: 25, long: 6_000 }) },
    );
  });

  it('judge special values of R and S alike', () => {
    const publicKey = sodiumEd25519().signer(seed).publicKey;
    const scalars = [0n, 1n, order - 1n, order, order + 1n, (1n << 255n) - 19n, (1n << 256n) - 1n].map(
      toBytes,
    );
    const points = [...smallOrderKeys.map(bytesOf), publicKey, ...scalars];
    for (const r of points)
      for (const s of scalars) expect(agree(publicKey, message, Uint8Array.from([...r, ...s]))).toBe(false);
  });
});

describe('chooseEd25519', () => {
  const broken = (): Ed25519 => {
    throw new Error('the addon does not load');
  };
  const lying = (): Ed25519 => ({ ...nodeEd25519(), name: 'sodium-native', verifier: () => () => false });

  it('takes the native engine where it loads, and names it', () => {
    expect(chooseEd25519().name).toBe('sodium-native');
  });

  it('falls back when an engine does not load or gives a wrong answer', () => {
    expect(firstWorking([broken, nodeEd25519, nobleEd25519])?.name).toBe('node:crypto');
    expect(firstWorking([broken, lying, nobleEd25519])?.name).toBe('noble');
    expect(firstWorking([broken, lying])).toBeNull();
  });
});
