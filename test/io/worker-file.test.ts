import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { packWorker } from '../../shared/runtime/worker-file.ts';

const source = new URL('../../sidecar/verify/verify-worker.ts', import.meta.url);

describe('a thread packed from source', () => {
  it('is whole when several threads of one process pack it at once', async () => {
    const paths = await Promise.all(Array.from({ length: 8 }, () => packWorker(source)));
    const [path = ''] = paths;
    expect(new Set(paths).size).toBe(1);
    // The last line of what esbuild writes.
    expect(await readFile(path, 'utf8')).toMatch(/export \{[^}]*\};\n$/);
  });
});
