import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

it('redacts secrets at every depth that our code logs', () => {
  const loggerModule = fileURLToPath(new URL('../../../shared/runtime/logger.ts', import.meta.url));
  const program = `
    import { jsonLogger } from ${JSON.stringify(loggerModule)};
    const logger = jsonLogger({ name: 'test', level: 'debug' });
    logger.info({ authorization: 'SECRET-1', request: { passport: 'SECRET-2', headers: { authorization: 'SECRET-3' } }, plain: 'kept' }, 'hello');
    logger.child({ key: 'SECRET-4' }).warn({ private_key: 'SECRET-5' }, 'again');
  `;
  const output = execFileSync(
    'sh',
    ['-c', 'exec "$0" --import tsx --input-type=module -e "$1" 2>&1', process.execPath, program],
    { encoding: 'utf8' },
  );
  expect(output).toContain('hello');
  expect(output).toContain('kept');
  expect(output).toContain('[redacted]');
  expect(output).not.toContain('SECRET');
});
