import { expect, it, onTestFinished } from 'vitest';
import { bundledPrograms } from '../support/programs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

it('a database that is not there at the start is waited for with a clear message, then given up with exit code 1', async () => {
  const programs = await bundledPrograms();
  const folder = temporaryFolder();
  onTestFinished(() => folder.remove());
  const program = programs.start(['control-plane'], {
    DATABASE_URL: 'postgres://nobody:hunter2@127.0.0.1:1/nothing',
    MASTER_KEY: Buffer.alloc(32, 1).toString('base64url'),
    DATA_DIR: folder.path,
    PORT: '0',
  });
  await program.waitFor(/127\.0\.0\.1:1/);
  expect(await program.exited).toBe(1);
  expect(program.output()).toMatch(/DATABASE_URL/);
  expect(program.output()).not.toContain('hunter2');
});
