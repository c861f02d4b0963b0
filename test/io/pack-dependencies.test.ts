import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { packedFolder } from '../../deploy/pack-dependencies.ts';
import { sharedService } from '../support/shared-services.ts';

it('the compiled programs load typebox and the phone numbers from a few packed files', async () => {
  const folder = await sharedService('programs');
  const script = `
    for (const name of ['typebox', 'typebox/compile', 'libphonenumber-js/max']) {
      await import(name);
      console.log(import.meta.resolve(name));
    }`;
  const found = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: folder,
    encoding: 'utf8',
  });
  const packed = pathToFileURL(join(folder, packedFolder));
  expect(
    found
      .trim()
      .split('\n')
      .map((url) => url.startsWith(`${packed}/`)),
  ).toEqual([true, true, true]);
  const files = readdirSync(packed, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  expect(files.length).toBeLessThan(12);
});
