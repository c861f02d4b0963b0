import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);
const root = new URL('../../', import.meta.url);
const load = (module: string) =>
  run(
    process.execPath,
    ['--import', 'tsx', '-e', `import('${module}').then((all) => console.log(Object.keys(all).join()))`],
    { cwd: root },
  );

it('loads the provider, its errors and its policy without the warning about the version of Node', async () => {
  expect(await load('./control-plane/oauth/library.ts')).toEqual({
    stdout: 'Provider,errors,interactionPolicy\n',
    stderr: '',
  });
});
