import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { openPassportToken, signPassportToken } from '../../shared/crypto/passport-token.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { verifyLimits } from '../../sidecar/verify/limits.ts';
import { verifyPool } from '../../sidecar/verify/pool.ts';
import type { VerifyJob } from '../../sidecar/verify/verify-task.ts';

/**
 * Checks signatures of passport tokens for so many seconds and prints how many it did: `verify.ts
 * pool|engine|node SECONDS`. `pool` is the sidecar's own pool with one thread, hand-over included; `engine` a
 * loop over the same engine; `node` one over `crypto.verify`. Keys are prepared once.
 */
const [mode = '', seconds = '1'] = process.argv.slice(2);
const warmUpMs = 500;
const tokens = 256;

const engine = chooseEd25519();
const signer = engine.signer(randomBytes(32));
interface Job extends VerifyJob {
  readonly signingInput: Uint8Array;
}

const jobs = Array.from({ length: tokens }, (_, index): Job => {
  // Of the size of a real passport token: about 600 characters.
  const claims = { jti: `pass_${index}`, filling: randomBytes(200).toString('base64url') };
  const open = must(
    openPassportToken(signPassportToken(claims, { kid: 'bench', signer })),
    'a token that was just signed',
  );
  const { signedText, signingInput, signature } = open;
  return { signedText, signingInput, signature, publicKey: signer.publicKey, algorithm: null };
});

const run =
  mode === 'pool' ? await poolRunner() : loopRunner(mode === 'engine' ? engineCheck() : nodeCheck());
await run.during(warmUpMs);
const cpuBefore = process.cpuUsage();
const before = performance.now();
const done = await run.during(Number(seconds) * 1_000);
const elapsedS = (performance.now() - before) / 1_000;
const cpu = process.cpuUsage(cpuBefore);
await run.close();
console.log(`RESULT ${done / elapsedS} ${(cpu.user + cpu.system) / 1e6 / elapsedS} ${engine.name}`);

interface Runner {
  /** Verifies for so long and returns how many. */
  during(ms: number): Promise<number>;
  close(): Promise<void>;
}

type Check = (job: Job) => boolean;

function engineCheck(): Check {
  const isGood = engine.verifier(signer.publicKey);
  return ({ signingInput, signature }) => isGood(signingInput, signature);
}

function nodeCheck(): Check {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(signer.publicKey).toString('base64url') };
  const key = createPublicKey({ key: jwk, format: 'jwk' });
  return ({ signingInput, signature }) => verify(null, signingInput, key, signature);
}

function loopRunner(check: Check): Runner {
  return {
    during: async (ms) => {
      const end = performance.now() + ms;
      let count = 0;
      while (performance.now() < end) {
        for (const job of jobs) {
          assert(check(job), 'a good signature verifies');
          count += 1;
        }
      }
      return count;
    },
    close: async () => undefined,
  };
}

async function poolRunner(): Promise<Runner> {
  const pool = verifyPool({ threads: 1, logger: silentLogger });
  await pool.ready();
  const size = verifyLimits.verifyBatchMax;
  const batches = Array.from({ length: tokens / size }, (_, index) =>
    jobs.slice(index * size, (index + 1) * size),
  );
  return {
    during: async (ms) => {
      const end = performance.now() + ms;
      let count = 0;
      const feed = async (start: number) => {
        for (let index = start; performance.now() < end; index += 1) {
          const batch = must(batches[index % batches.length], 'there are batches');
          // One bit for each token of a full batch.
          assert((await pool.verify(batch)) >>> 0 === 0xffffffff, 'good signatures verify');
          count += size;
        }
      };
      await Promise.all(Array.from({ length: pool.capacity }, (_, start) => feed(start)));
      await turn();
      return count;
    },
    close: () => pool.close(),
  };
}
