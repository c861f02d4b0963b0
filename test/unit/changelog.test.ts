import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const allHeadings = [...read('CHANGELOG.md').matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
/** The version to come is first. */
const [coming, ...headings] = allHeadings;

it('opens the version to come, which is above that of package.json', () => {
  const version = must(/^(\d+\.\d+\.\d+) \(unreleased\)$/.exec(coming ?? '')?.[1], 'an open section');
  const numbers = (text: string) => text.split('.').map(Number);
  const [next, current] = [numbers(version), numbers(packageVersion)];
  const differs = next.findIndex((number, place) => number !== current[place]);
  expect(next[differs]).toBeGreaterThan(current[differs] ?? Number.NaN);
});

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
