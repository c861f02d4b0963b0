import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../shared/model/constraints.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { corpus, type Labelled } from './corpus.ts';
import { type Measured, measure } from './measure.ts';

/** What the detectors must not fall below, on this corpus with its hard cases. */
const floorOfEach = 0.94;
const floorOfAll = 0.96;

const percent = (fraction: number): string => `${(fraction * 100).toFixed(1)} %`.padStart(8);
const line = ({ type, right, wrong, missed, precision, recall }: Measured): string =>
  `${type.padEnd(13)}${[right, wrong, missed].map((count) => String(count).padStart(7)).join('')}  ${percent(precision)}  ${percent(recall)}`;

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

  it('is recognised with the promised precision and recall', () => {
    const { rows, differences } = measure(corpus);
    const head = `type          right  wrong missed  precision   recall   (${corpus.length} texts)`;
    console.info(
      [
        head,
        ...rows.map(line),
        ...differences.map(
          ({ text, wrong, missed }) =>
            `  ${JSON.stringify(text)} wrong: ${wrong.join(', ') || '-'} missed: ${missed.join(', ') || '-'}`,
        ),
      ].join('\n'),
    );
    for (const { type, precision, recall } of rows) {
      const floor = type === 'all' ? floorOfAll : floorOfEach;
      expect(precision, `precision of ${type}`).toBeGreaterThanOrEqual(floor);
      expect(recall, `recall of ${type}`).toBeGreaterThanOrEqual(floor);
    }
  });

  it('would be measured as bad if the labels were wrong', () => {
    const swapped: Labelled[] = corpus.map((labelled) => ({
      ...labelled,
      values: labelled.values.map(({ value }) => ({ type: 'us_ssn', value })),
    }));
    expect(measure(swapped).rows.at(-1)?.precision).toBeLessThan(0.5);
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
