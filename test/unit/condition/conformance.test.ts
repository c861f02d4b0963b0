import type { Type as ProtoType } from '@bufbuild/cel-spec/cel/expr/checked_pb.js';
import type { Value as ProtoValue } from '@bufbuild/cel-spec/cel/expr/value_pb.js';
import { getConformanceSuite, type IncrementalTestSuite } from '@bufbuild/cel-spec/testdata/tests.js';
import { expect, it } from 'vitest';
import { checkCondition } from '../../../shared/condition/check-condition.ts';
import type { Type } from '../../../shared/condition/check-types.ts';
import { compileForm } from '../../../shared/condition/compile-form.ts';
import { Double, MapValue, toDouble, toInt, type Value } from '../../../shared/condition/values.ts';
import type { Variables } from '../../../shared/condition/variables.ts';

/**
 * The published conformance data of CEL (cel-spec v0.25.1). What the compiler takes has to agree; what it
 * refuses is counted by cause, so that neither number shrinks unseen.
 */
type ConformanceTest = IncrementalTestSuite['tests'][number]['original'];

class Beyond extends Error {}

const testsOf = (suite: IncrementalTestSuite, path = ''): { name: string; test: ConformanceTest }[] => [
  ...suite.tests.map(({ original }) => ({ name: `${path}/${original.name}`, test: original })),
  ...suite.suites.flatMap((each) => testsOf(each, `${path}/${each.name}`)),
];

function celValue({ kind }: ProtoValue): Value {
  switch (kind.case) {
    case 'nullValue':
      return null;
    case 'boolValue':
    case 'stringValue':
      return kind.value;
    case 'int64Value':
      return toInt(kind.value);
    case 'doubleValue':
      return toDouble(kind.value);
    case 'listValue':
      return kind.value.values.map(celValue);
    case 'mapValue': {
      const entries = kind.value.entries.map(
        ({ key, value }) => [celValue(key as ProtoValue), celValue(value as ProtoValue)] as const,
      );
      return new MapValue(new Map<unknown, Value>(entries));
    }
    default:
      throw new Beyond(`a value of ${kind.case}`);
  }
}

const kinds: Readonly<Record<number, Type['kind']>> = { 1: 'bool', 2: 'int', 4: 'double', 5: 'string' };

function typeOf(type: ProtoType | undefined): Type {
  const kind = type?.typeKind;
  if (kind?.case === 'primitive' && kinds[kind.value] !== undefined)
    return { kind: kinds[kind.value] ?? 'dyn' };
  if (kind?.case === 'dyn') return { kind: 'dyn' };
  if (kind?.case === 'listType') return { kind: 'list', of: typeOf(kind.value.elemType) };
  if (kind?.case === 'mapType') return { kind: 'map', of: typeOf(kind.value.valueType) };
  throw new Beyond(`a variable of ${kind?.case}`);
}

const causes: readonly (readonly [RegExp, string])[] = [
  [/^uint is|^there is no function uint|of uint/, 'uint'],
  [/^bytes are|^there is no function bytes|of bytes/, 'bytes'],
  [/^there is no function type|type/, 'types as values'],
  [/^there is no variable '(?:google|TestAllTypes|Nested|cel|Global|proto)/, 'protobuf'],
  [/^expected .* found '[{?]'|of objectValue|messageType|wellKnown|wrapper|enumValue|container/, 'protobuf'],
  [
    /^there is no variable '(?:math|base64|optional|strings|uint|bool|int|string|list|double|bytes)/,
    'extensions',
  ],
  [/^there is no function |^there is no variable/, 'functions of extensions'],
  [/has\(\) takes|takes the name of an item/, 'macros of extensions'],
  [/does not take|no member|no items by|takes a|goes through|never in|is no key|is called as|no '/, 'types'],
  [/literal$/, 'computed patterns and zones'],
  [/found '\.'|^'`'/, 'names with a dot or a backtick in front'],
  [/functions of a test|a variable of/, 'declarations of a test'],
];
const causeOf = (message: string): string =>
  causes.find(([pattern]) => pattern.test(message))?.[1] ?? `other: ${message}`;

/** What it answers: agrees, is refused for a cause, or how it differs. */
function play(test: ConformanceTest): { refused: string } | { differs: string } | 'agrees' {
  try {
    if (test.container !== '') throw new Beyond('container');
    if (test.disableMacros) throw new Beyond('macros are off');
    const declared = new Map<string, Type>();
    const variables: Record<string, unknown> = {};
    for (const { name, declKind } of test.typeEnv) {
      if (declKind.case !== 'ident') throw new Beyond('functions of a test');
      declared.set(name, typeOf(declKind.value.type));
    }
    for (const [name, { kind }] of Object.entries(test.bindings)) {
      if (kind.case !== 'value') throw new Beyond('unknown values');
      variables[name] = celValue(kind.value);
      if (!declared.has(name)) declared.set(name, { kind: 'dyn' });
    }
    const { resultMatcher: matcher } = test;
    if (test.checkOnly) throw new Beyond('deduced types');
    const isError = matcher.case === 'evalError' || matcher.case === 'anyEvalErrors';
    if (matcher.case === 'unknown' || matcher.case === 'anyUnknowns') throw new Beyond('unknown values');
    const result = matcher.case === 'typedResult' ? matcher.value.result : matcher.value;
    const expected = isError ? null : result === undefined ? true : celValue(result as ProtoValue);
    const hasNoEqual = expected instanceof Double ? Number.isNaN(expected.value) : Number.isNaN(expected);
    variables['expected'] = expected;
    declared.set('expected', { kind: 'dyn' });
    const compared = hasNoEqual ? `!= dyn(${test.expr}\n)` : '== expected';
    const checked = checkCondition(`dyn(${test.expr}\n) ${compared}`, declared);
    if (!('form' in checked)) {
      // A fault at compile time is an error, too, but nobody can tell whether for the same cause.
      return { refused: causeOf(checked.message) };
    }
    const evaluate = compileForm(checked.form, (name) => declared.has(name as string));
    const truth = evaluate(variables as unknown as Variables, { left: 10_000 });
    const hasErred = typeof truth !== 'boolean';
    if (hasErred === isError && (isError || truth === true)) return 'agrees';
    return { differs: JSON.stringify(truth) };
  } catch (error) {
    if (error instanceof Beyond) return { refused: causeOf(error.message) };
    throw error;
  }
}

it('agrees with the conformance data of CEL in all that it takes', () => {
  const refused: Record<string, number> = {};
  const differing: string[] = [];
  let agreeing = 0;
  for (const { name, test } of testsOf(getConformanceSuite())) {
    const outcome = play(test);
    if (outcome === 'agrees') agreeing += 1;
    else if ('refused' in outcome) refused[outcome.refused] = (refused[outcome.refused] ?? 0) + 1;
    else differing.push(`${name}: ${test.expr} is ${outcome.differs}`);
  }
  expect(differing).toEqual([]);
  expect(agreeing).toBe(711);
  expect(refused).toEqual({
    ...{ protobuf: 707, 'functions of extensions': 422, uint: 262, bytes: 120, 'types as values': 39 },
    ...{ 'macros of extensions': 32, types: 31, 'names with a dot or a backtick in front': 12 },
    'declarations of a test': 8,
  });
});
