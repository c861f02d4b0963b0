import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const dumps = new URL('../upgrade/', import.meta.url);
const migrations = new URL('../../control-plane/storage/migrations/', import.meta.url);
const releases = readdirSync(dumps).filter((name) => name.endsWith('.sql'));

/** A start refuses a database that has applied another text, so even its comments stay. */
it.each(releases)('the migrations of %s are byte for byte those of the release', (release) => {
  const text = readFileSync(new URL(release, dumps), 'utf8');
  const applied = [...text.matchAll(/^INSERT INTO migrations .*'(\d{4}-[^']+)', '([0-9a-f]{64})'/gm)];
  expect(applied.length).toBeGreaterThanOrEqual(10);
  for (const [, name = '', checksum] of applied) {
    const own = createHash('sha256').update(readFileSync(new URL(name, migrations)));
    expect.soft(own.digest('hex'), name).toBe(checksum);
  }
});
