import { expect, it } from 'vitest';
import { importsOf, sourcesBelow } from '../../support/base/sources.ts';

const sources = new Map(['shared', 'sidecar'].flatMap(sourcesBelow).map((source) => [source.path, source]));

/** What is loaded with a file: not what it imports as types, or later. */
function loadedWith(path: string, seen: Set<string> = new Set()): ReadonlySet<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  const text = sources.get(path)?.text ?? '';
  const atOnce = text
    .replaceAll(/^(?:import|export) type [^;]*;$/gm, '')
    .replaceAll(/\bimport\([^)]*\)/g, '');
  for (const next of importsOf(path, atOnce)) loadedWith(next, seen);
  return seen;
}

it('a sidecar that exports nothing loads neither an HTTP client nor the library of OpenTelemetry', () => {
  const heavy = /^(?:undici$|@opentelemetry\/)/;
  const all = [...loadedWith('sidecar/main.ts')];
  expect(all).toContain('shared/telemetry/start-telemetry.ts');
  expect(all.filter((path) => heavy.test(path))).toEqual([]);
  // It would find them.
  const exporting = [...loadedWith('shared/telemetry/exporting.ts')].filter((path) => heavy.test(path));
  expect(exporting).toContain('undici');
  expect(exporting).toContain('@opentelemetry/otlp-transformer');
});
