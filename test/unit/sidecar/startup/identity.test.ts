import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { systemRandom } from '../../../../shared/runtime/random.ts';
import { sidecarIdOf } from '../../../../sidecar/startup/identity.ts';

describe('the id of a sidecar', () => {
  const deps = { clock: systemClock, random: systemRandom() };
  let root = '';
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'agent-trust-identity-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('is made once for a folder, readable by its owner alone', async () => {
    const folder = join(root, 'new', '0');
    const first = await sidecarIdOf(folder, deps);
    expect(first).toMatch(/^side_/);
    expect(await sidecarIdOf(folder, deps)).toBe(first);
    expect(statSync(join(folder, 'sidecar-id')).mode & 0o777).toBe(0o600);
  });

  it('differs from folder to folder', async () => {
    expect(await sidecarIdOf(join(root, '0'), deps)).not.toBe(await sidecarIdOf(join(root, '1'), deps));
  });

  it('is never replaced where the file was damaged', async () => {
    writeFileSync(join(root, 'sidecar-id'), 'side_01h2xcejqtf2nbr');
    await expect(sidecarIdOf(root, deps)).rejects.toThrow('contains no sidecar id');
    expect(readFileSync(join(root, 'sidecar-id'), 'utf8')).toBe('side_01h2xcejqtf2nbr');
  });

  it('survives a start that ended while it was being written', async () => {
    writeFileSync(join(root, 'sidecar-id.new'), 'side_01');
    expect(await sidecarIdOf(root, deps)).toMatch(/^side_[0-9a-z]{26}$/);
  });
});
