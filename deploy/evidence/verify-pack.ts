import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { verifyPackCommand } from '../../cli/evidence/verify-pack.ts';

/**
 * The program `verify.mjs` in an evidence pack: `node verify.mjs [--jwks FILE] [--log-policy FILE]` verifies
 * the pack in its folder, without a network. Exit code 0: all of it holds; 5: something does not; 2: a file
 * is missing, or nothing was verified.
 */
try {
  const { values } = parseArgs({ options: { jwks: { type: 'string' }, 'log-policy': { type: 'string' } } });
  process.exitCode = await verifyPackCommand({
    folder: dirname(fileURLToPath(import.meta.url)),
    ...(values.jwks !== undefined && { jwks: values.jwks }),
    ...(values['log-policy'] !== undefined && { logPolicy: values['log-policy'] }),
    output: process.stdout,
    errors: process.stderr,
  });
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}. Nothing was verified.\n`);
  process.exitCode = 2;
}
