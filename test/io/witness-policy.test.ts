import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readWitnessPolicy } from '../../control-plane/log/read-witness-policy.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const refusalOf = async (path: string): Promise<string> => {
  const error: unknown = await readWitnessPolicy(path, chooseEd25519()).then(
    () => new Error('it was read'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof StartError)) throw error;
  return error.message;
};

it('a start refuses a policy of witnesses that it cannot use, with the file and the line', async () => {
  const file = join(folder.path, 'log.policy');
  for (const [text, said] of [
    ['witness w1 nonsense http://127.0.0.1\nquorum w1\n', 'line 1: a witness has a name and a vkey'],
    ['# nobody\nquorum w1\n', 'line 2: quorum is followed by none, or a witness or group'],
    ['', 'it has no quorum line'],
    ['x'.repeat(2 ** 21), 'it is larger than'],
  ] as const) {
    writeFileSync(file, text);
    const refusal = await refusalOf(file);
    expect(refusal).toContain(`LOG_WITNESSES ${file} is not a usable policy: ${said}`);
  }
  expect(await refusalOf(join(folder.path, 'absent.policy'))).toContain('ENOENT');
});
