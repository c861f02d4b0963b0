import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { builtInTemplates } from '../../control-plane/templates/built-in-templates.ts';
import { tools } from '../../control-plane/tools/tool-list.ts';
import { catalogue } from '../../shared/errors/catalogue.ts';
import { piiModes, piiTypes } from '../../shared/model/constraints.ts';
import { checkNames, decisionReasons } from '../../shared/model/decision.ts';
import { scopes } from '../../shared/model/scopes.ts';
import { webhookEvents } from '../../shared/model/webhook.ts';
import { settings } from '../../shared/runtime/settings.ts';
import { contractPages } from '../support/base/sources.ts';

/**
 * The contract has to be enough for a second implementation: it names whatever a caller or an operator can
 * name.
 */
const root = new URL('../../', import.meta.url);
const page = contractPages.map((path) => readFileSync(new URL(path, root), 'utf8')).join('\n');
const readDocument = (path: string) => JSON.parse(readFileSync(new URL(path, root), 'utf8'));
/** What each program publishes of itself. */
const documents = [readDocument('docs/openapi.json'), readDocument('sidecar/openapi.json')];

/**
 * What stands between backticks, whole and in its words: `GET /gates`, and `passport_id` of `{ passport_id, …
 * }`.
 */
const quoted = [...page.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.replaceAll(/\s+/g, ' '));
const words: ReadonlySet<string> = new Set([
  ...quoted,
  ...quoted.flatMap((text) => text.split(/[^A-Za-z0-9_:*.-]+/)),
  ...quoted.flatMap((text) => text.split(/[^A-Za-z0-9_-]+/)),
]);
const missing = (names: Iterable<string>): string[] => [...new Set(names)].filter((name) => !words.has(name));

/** Names of the members of every schema below, and of every parameter. */
function namesIn(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  const { properties, in: where, name, ...others } = value as Record<string, unknown>;
  const parameter = typeof where === 'string' && typeof name === 'string' ? [name] : [];
  const inside = Object.values(others).flatMap(namesIn);
  if (typeof properties !== 'object' || properties === null) return [...parameter, ...inside];
  // The keys of this object are fields; one of them may be called `properties` itself.
  return [...Object.keys(properties), ...Object.values(properties).flatMap(namesIn), ...parameter, ...inside];
}

describe('the contract', () => {
  it.each([
    ['scope', scopes],
    ['reason', decisionReasons],
    ['check', checkNames],
    ['error code', Object.keys(catalogue)],
    ['setting', Object.keys(settings)],
    ['event', webhookEvents],
    ['tool', tools.map(({ name }) => name)],
    ['built-in template', builtInTemplates.map(({ templateId }) => templateId)],
    ['kind and mode of personal data', [...piiTypes, ...piiModes]],
  ])('names every %s', (_kind, names) => {
    expect(names.length).toBeGreaterThan(0);
    expect(missing(names)).toEqual([]);
  });

  it('names every field and parameter of the OpenAPI documents', () => {
    const names = documents.flatMap(namesIn);
    expect(names.length).toBeGreaterThan(500);
    expect(missing(names)).toEqual([]);
  });

  it('names the path of every operation of the OpenAPI documents', () => {
    const paths = documents
      .flatMap((document) => Object.keys(document.paths))
      .map((path) => path.replace(/^\/v1/, '').replaceAll(/\{(\w+)\}/g, ':$1'));
    expect(paths.length).toBeGreaterThan(30);
    const text = page.replaceAll('{gate_id}', ':id');
    // A row may shorten a path to its end: `/passports/:id/revoke`, `/suspend`.
    const isNamed = (path: string) =>
      text.includes(path) || quoted.includes(path.slice(path.lastIndexOf('/')));
    expect(paths.filter((path) => !isNamed(path))).toEqual([]);
    expect(isNamed('/passports/:id/no-such')).toBe(false);
  });
});
