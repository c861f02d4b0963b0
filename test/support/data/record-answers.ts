import { readFileSync, writeFileSync } from 'node:fs';
import type { Document, Schema } from '../../../control-plane/openapi/document.ts';
import { answerOf, operationsOf } from './document.ts';

const file = new URL('../../../control-plane/openapi/answer-examples.json', import.meta.url);
/** Of a schema, and of a list in an example. */
const [examplesMax, itemsMax] = [3, 6];
const [past, future] = ['2026-11-20T10:36:41.901Z', '2026-12-20T10:36:41.901Z'];
const filler = 'Zx4Vb8Nm2Lk6Jh0Gf5Ds9Aq3We7Rt1Yu4Io8Pa2Sd6F';

/**
 * Answers that become the examples of the document: by the name of their schema, the last one of each set of
 * members; of a page its first item. What differs from run to run is fixed, and no secret is kept.
 */
export function answerRecording(document: Document) {
  const { schemas } = document.components;
  const found = new Map<string, Map<string, unknown>>();
  const keep = (schema: Schema | undefined, answer: unknown, nowMs: number): void => {
    const name = nameOf(schema);
    if (name === null || typeof answer !== 'object' || answer === null) return;
    const page = schemas[name]?.['properties'] as { readonly items?: Schema } | undefined;
    const shapes = found.get(name) ?? new Map<string, unknown>();
    if (name.endsWith('Page')) {
      keep(page?.items?.['items'] as Schema, (answer as { items?: unknown[] }).items?.[0], nowMs);
    } else found.set(name, shapes.set(Object.keys(answer).toSorted().join(), fixed(answer, nowMs)));
  };
  return {
    note: (id: string, { status, body, nowMs }: { status: number; body: unknown; nowMs: number }): void => {
      const operation = operationsOf(document).find((each) => each.operation.operationId === id)?.operation;
      const answer = operation === undefined ? null : answerOf(document, operation, status);
      keep(answer?.content?.['application/json']?.schema, body, nowMs);
    },
    /** What was not answered this time stays as it is. */
    write: (): void => {
      const before = Object.entries(JSON.parse(readFileSync(file, 'utf8')));
      const now = [...found].map(([name, shapes]) => [name, [...shapes.values()].slice(0, examplesMax)]);
      const lines = Object.entries(Object.fromEntries([...before, ...now]))
        .filter(([name]) => schemas[name] !== undefined)
        .map(([name, examples]) => `  "${name}": ${JSON.stringify(examples)}`);
      writeFileSync(file, `{\n${lines.toSorted().join(',\n')}\n}\n`);
    },
  };
}

const nameOf = (schema: Schema | undefined): string | null =>
  typeof schema?.['$ref'] === 'string' ? schema['$ref'].slice('#/components/schemas/'.length) : null;

/** Members that differ from run to run, or are secrets, whatever they look like. */
const fixedMembers: Readonly<Record<string, unknown>> = {
  ...{ last4: 'KEAp', latency_ms: 41, staleness_ms: 640, sequence: 1, revision: 1 },
  recovery_codes: ['Q7XA-…', 'M2KD-…'],
};

/** Texts that are: tokens and secrets, then ids, hashes, keys and signatures, then addresses and names. */
const fixedTexts: readonly (readonly [RegExp, string])[] = [
  [/\beyJ[\w.-]+/g, 'eyJhbGciOiJFZERTQSIsInR5…'],
  [/\b(at_(?:live|test)_)\w{5,}/g, '$1WoGF…'],
  [/\b(at_(?:live|test)_)\w{4}$/g, '$1WoGF'],
  [/\b(whsec_|token=|secret=|state=|nonce=|code_challenge=)[\w+/=-]+/g, '$1…'],
  [/\b[A-Z2-7]{32}\b/g, 'JBSWY3DPEHPK3PXP…'],
  [/\b([a-z]+_)[0-9a-hjkmnp-tv-z]{26}\b/g, '$101m7w8f9hdzbnzm1x73rrwwwpj'],
  [/\bgen_[0-9a-f]{32}/g, 'gen_7f3a09c2d4e84b1f9a6c5d0e2b7f8a91'],
  [/\bsha256:[0-9a-f]{64}/g, `sha256:${'8194b76a4c4b9c53'.repeat(4)}`],
  [/\b(ed25519(?:_private)?:)[\w-]{43}/g, `$1${filler}`],
  [/(?<![\w:-])[\w-]{86}\b/g, filler.repeat(2)],
  [/(?<![\w:-])[\w-]{40,43}(?![\w-])/g, filler],
  [/\bhttp:\/\/localhost:\d+/g, 'https://trust.example.com'],
  [/\b127\.0\.0\.1:\d+/g, '127.0.0.1:8080'],
  [/\bgood[ -]([a-z]+)[ -]\d+|\b(agent|example|user)-\d+/g, '$1$2'],
];

function fixed(value: unknown, nowMs: number): unknown {
  if (typeof value === 'string')
    return fixedTexts
      .reduce((text, [pattern, instead]) => text.replaceAll(pattern, instead), value)
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => (Date.parse(time) > nowMs ? future : past));
  if (typeof value === 'number') return value > 1.7e9 && value < 2e9 ? 1_795_171_001 : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    // Keys come in the order of their ids, which are random.
    const ofOneKind = value.filter((each) => [undefined, 'attestation'].includes(each?.purpose));
    return ofOneKind.slice(0, itemsMax).map((each) => fixed(each, nowMs));
  }
  const members = Object.entries(value).map(([name, each]) => [
    name,
    each === null ? null : (fixedMembers[name] ?? fixed(each, nowMs)),
  ]);
  return Object.fromEntries(members);
}
