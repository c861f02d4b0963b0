import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../shared/model/constraints.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { blindCorpus } from './blind-corpus.ts';
import { corpus } from './corpus.ts';
import { type Measured, measure, measureTypes } from './measure.ts';

/** What the detectors must not fall below, on the corpus of their author with its hard cases. */
const floors = { ofEach: 0.94, ofAll: 0.96 };

const percent = (fraction: number): string => `${(fraction * 100).toFixed(1)} %`.padStart(8);
const line = ({ type, right, wrong, missed, precision, recall }: Measured): string =>
  `${type.padEnd(13)}${[right, wrong, missed].map((count) => String(count).padStart(7)).join('')}  ${percent(precision)}  ${percent(recall)}`;

/**
 * On the texts that were labelled without knowledge of the detectors: where all agree on the label, and all
 * of them.
 */
const blindFloors = { ofEach: 0.92, ofAll: 0.97 };
const arguableFloors = { ofEach: 0.82, ofAll: 0.9 };

function print(title: string, { rows, differences }: ReturnType<typeof measure>): void {
  console.info(
    [
      `type          right  wrong missed  precision   recall   (${title})`,
      ...rows.map(line),
      ...differences.map(
        ({ text, wrong, missed }) =>
          `  ${JSON.stringify(text)} wrong: ${wrong.join(', ') || '-'} missed: ${missed.join(', ') || '-'}`,
      ),
    ].join('\n'),
  );
}

function expectAtLeast(
  { ofEach, ofAll }: { readonly ofEach: number; readonly ofAll: number },
  rows: readonly Measured[],
): void {
  for (const { type, precision, recall } of rows) {
    const floor = type === 'all' ? ofAll : ofEach;
    expect(precision, `precision of ${type}`).toBeGreaterThanOrEqual(floor);
    expect(recall, `recall of ${type}`).toBeGreaterThanOrEqual(floor);
  }
}

describe('the corpus of personal data', () => {
  it('is large, has near misses, and means what its labels say', () => {
    const nearMisses = corpus.filter(({ values }) => values.length === 0);
    expect(corpus.length).toBeGreaterThanOrEqual(400);
    expect(nearMisses.length).toBeGreaterThanOrEqual(150);
    for (const type of piiTypes) {
      expect(
        corpus.filter(({ values }) => values.some((one) => one.type === type)).length,
      ).toBeGreaterThanOrEqual(20);
    }
    expect(corpus.filter(({ text }) => /[«»]/.test(text))).toEqual([]);
    for (const { values } of corpus) {
      for (const { type, value } of values) if (type === 'iban') expect(remainder(value)).toBe(1n);
    }
  });

  it('is recognised with the documented precision and recall', () => {
    const measured = measure(corpus);
    print(`${corpus.length} texts by the author of the detectors`, measured);
    expectAtLeast(floors, measured.rows);
  });

  it('is recognised nearly as well in texts that were written without knowledge of the detectors', () => {
    const agreed = blindCorpus.filter(({ isArguable }) => !isArguable);
    expect(agreed.length).toBeGreaterThanOrEqual(400);
    const measured = measureTypes(agreed);
    print(`${agreed.length} texts written without knowledge of the detectors`, measured);
    expectAtLeast(blindFloors, measured.rows);

    const measuredAll = measureTypes(blindCorpus);
    print(`the same and those whose label is arguable, ${blindCorpus.length} texts`, measuredAll);
    expectAtLeast(arguableFloors, measuredAll.rows);
  });

  it('leaves nothing of a value that was found in the redacted copy', () => {
    const { differences } = measure(corpus);
    const hard = new Set(differences.map(({ text }) => text));
    for (const { text, name, values } of corpus) {
      if (hard.has(text) || values.length === 0) continue;
      const copy = JSON.stringify(redactRequest({ [name || 'text']: text }, piiTypes).request);
      for (const { value } of values) expect(copy).not.toContain(value);
    }
  });
});

/** Written apart from the detector: ISO 7064 over one large number. */
function remainder(iban: string): bigint {
  const compact = iban
    .normalize('NFKC')
    .replace(/[^a-z0-9]/gi, '')
    .toUpperCase();
  const turned = compact.slice(4) + compact.slice(0, 4);
  return BigInt(turned.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55))) % 97n;
}
