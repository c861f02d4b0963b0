import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { packageVersion } from '../../shared/runtime/package-version.ts';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const allHeadings = [...read('CHANGELOG.md').matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
/** Changes since the newest version come first. */
const headings = allHeadings[0] === 'Unreleased' ? allHeadings.slice(1) : allHeadings;

it('has the version of package.json as its newest, which every document and the lock file show too', () => {
  expect(headings[0]).toMatch(new RegExp(`^${packageVersion.replaceAll('.', '\\.')} - `));
  const lock = JSON.parse(read('package-lock.json'));
  expect([lock.version, lock.packages[''].version]).toEqual([packageVersion, packageVersion]);
  for (const document of ['docs/openapi.json', 'sidecar/openapi.json']) {
    const { info } = JSON.parse(read(document));
    expect([info.version, info['x-service-version']], document).toEqual(['1.0', packageVersion]);
  }
});

it('has a date for each version, newest first', () => {
  const dates = headings.map((heading) => /^\d+\.\d+\.\d+ - (\d{4}-\d{2}-\d{2})$/.exec(heading)?.[1]);
  expect(dates.length).toBeGreaterThan(1);
  expect(dates).toEqual(dates.toSorted().toReversed());
  expect(dates).not.toContain(undefined);
});
