import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { systemRandom } from '../../../../shared/runtime/random.ts';
import { sidecarIdOf } from '../../../../sidecar/startup/identity.ts';
import { useFolder } from '../../../support/base/use.ts';

describe('the id of a sidecar', () => {
  const deps = { clock: systemClock, random: systemRandom() };
  const root = useFolder();

  it('is made once for a folder, readable by its owner alone', async () => {
    const folder = join(root.path, 'new', '0');
    const first = await sidecarIdOf(folder, deps);
    expect(first).toMatch(/^side_/);
    expect(await sidecarIdOf(folder, deps)).toBe(first);
    expect(statSync(join(folder, 'sidecar-id')).mode & 0o777).toBe(0o600);
  });

  it('is never replaced where the file was damaged', async () => {
    writeFileSync(join(root.path, 'sidecar-id'), 'side_01h2xcejqtf2nbr');
    await expect(sidecarIdOf(root.path, deps)).rejects.toThrow('contains no sidecar id');
    expect(readFileSync(join(root.path, 'sidecar-id'), 'utf8')).toBe('side_01h2xcejqtf2nbr');
  });

  it('survives a start that ended while it was being written', async () => {
    writeFileSync(join(root.path, 'sidecar-id.new'), 'side_01');
    expect(await sidecarIdOf(root.path, deps)).toMatch(/^side_[0-9a-z]{26}$/);
  });
});
