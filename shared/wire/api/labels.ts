import { invalidRequest } from '../../errors/api-error.ts';
import { type Labels, labelNamePattern, labelsMax, labelValueCharsMax } from '../../model/labels.ts';
import { isPlainText, plainTextDemand } from '../../model/plain-text.ts';
import type { FreeForm } from './fields.ts';
import { mergePatch } from './merge-patch.ts';

/** Throws `invalid_request` naming the label. */
export function parseLabels(given: FreeForm): Labels {
  const labels = Object.entries(given).map(([name, value]): [string, string] => {
    if (!labelNamePattern.test(name)) {
      throw invalidRequest(
        'labels',
        'The name of a label has up to 63 lower-case letters, digits, dots, dashes and slashes, and a letter or digit at both ends.',
      );
    }
    const param = `labels.${name}`;
    if (typeof value !== 'string' || value.length > labelValueCharsMax)
      throw invalidRequest(param, `${param} must be a text of at most ${labelValueCharsMax} characters.`);
    if (!isPlainText(value)) throw invalidRequest(param, `${param} ${plainTextDemand}.`);
    return [name, value];
  });
  if (labels.length > labelsMax) throw invalidRequest('labels', `There are at most ${labelsMax} labels.`);
  return Object.fromEntries(labels);
}

/** Those that a merge patch leaves; null removes all. Throws as `parseLabels` does. */
export const patchedLabels = (labels: Labels, patch: FreeForm | null): Labels =>
  patch === null ? {} : parseLabels(mergePatch({ ...labels }, patch) as FreeForm);

/** A member only where there are some: most have none. In the order of the names: jsonb keeps none. */
export const renderLabels = (labels: Labels): { readonly labels?: Record<string, string> } => {
  const sorted = Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return sorted.length === 0 ? {} : { labels: Object.fromEntries(sorted) };
};
