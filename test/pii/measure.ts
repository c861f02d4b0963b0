import { type PiiType, piiTypes } from '../../shared/model/constraints.ts';
import { limits } from '../../shared/model/limits.ts';
import { findPersonalData } from '../../shared/pii/find-personal-data.ts';
import { foldText } from '../../shared/pii/fold-text.ts';
import type { BlindText } from './blind-corpus.ts';
import type { Labelled } from './corpus.ts';

export interface Measured {
  readonly type: PiiType | 'all';
  readonly right: number;
  readonly wrong: number;
  readonly missed: number;
  readonly precision: number;
  readonly recall: number;
}

export interface Difference {
  readonly text: string;
  readonly wrong: readonly string[];
  readonly missed: readonly string[];
}

interface Measurement {
  readonly rows: Measured[];
  readonly differences: Difference[];
}

/**
 * Counted by value: a value is found when exactly its characters were, and whatever else was found is wrong.
 */
export const measure = (corpus: readonly Labelled[]): Measurement => count(corpus.map(judge));

/** Counted by type, as an answer names them: a type is found in a text or not, however often and wherever. */
export const measureTypes = (corpus: readonly BlindText[]): Measurement => count(corpus.map(judgeTypes));

function count(judged: readonly JudgedText[]): Measurement {
  const rows = piiTypes.map((type) =>
    rowOf(
      type,
      judged.flatMap(({ values }) => values.filter((one) => one.type === type)),
    ),
  );
  const all = rowOf(
    'all',
    judged.flatMap(({ values }) => values),
  );
  const differences = judged
    .map(({ text, values }) => ({
      text,
      wrong: values.filter(({ verdict }) => verdict === 'wrong').map(({ type, value }) => `${type} ${value}`),
      missed: values
        .filter(({ verdict }) => verdict === 'missed')
        .map(({ type, value }) => `${type} ${value}`),
    }))
    .filter(({ wrong, missed }) => wrong.length + missed.length > 0);
  return { rows: [...rows, all], differences };
}

interface Judged {
  readonly type: PiiType;
  readonly value: string;
  readonly verdict: 'right' | 'wrong' | 'missed';
}

interface JudgedText {
  readonly text: string;
  readonly values: readonly Judged[];
}

function judge({ text, name, values }: Labelled): JudgedText {
  const found = foundIn(text, name);
  const expected = values.map(({ type, value }) => ({ type, value: foldText(value) }));
  const same = (a: { type: string; value: string }) => (b: { type: string; value: string }) =>
    a.type === b.type && a.value === b.value;
  return {
    text,
    values: [
      ...found.map((one): Judged => ({ ...one, verdict: expected.some(same(one)) ? 'right' : 'wrong' })),
      ...expected
        .filter((one) => !found.some(same(one)))
        .map((one): Judged => ({ ...one, verdict: 'missed' })),
    ],
  };
}

function judgeTypes({ text, types }: BlindText): JudgedText {
  const found = new Set(foundIn(text, '').map(({ type }) => type));
  const verdictOn = (type: PiiType): Judged['verdict'] =>
    !types.includes(type) ? 'wrong' : found.has(type) ? 'right' : 'missed';
  const named = piiTypes.filter((type) => found.has(type) || types.includes(type));
  return { text, values: named.map((type) => ({ type, value: '', verdict: verdictOn(type) })) };
}

function foundIn(text: string, name: string): { readonly type: PiiType; readonly value: string }[] {
  const folded = foldText(text);
  const checks = { left: limits.piiPhoneChecksMax, wereTooFew: false };
  return findPersonalData(folded, name, piiTypes, checks).map(({ start, end, type }) => ({
    type,
    value: folded.slice(start, end),
  }));
}

function rowOf(type: Measured['type'], values: readonly Judged[]): Measured {
  const count = (verdict: Judged['verdict']) => values.filter((one) => one.verdict === verdict).length;
  const [right, wrong, missed] = [count('right'), count('wrong'), count('missed')];
  return { type, right, wrong, missed, precision: right / (right + wrong), recall: right / (right + missed) };
}
