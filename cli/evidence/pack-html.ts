/** Text that is HTML already: every value in it was escaped. */
export interface Html {
  readonly html: string;
}

/** What a page shows: text, which is escaped, or HTML. */
export type Shown = string | Html;

export const html = (text: string): Html => ({ html: text });

/**
 * Characters that say nothing, or that disguise what stands beside them: controls, bidirectional marks, those
 * without width, tags, fillers and variation selectors. Agents choose names and permissions.
 */
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/gu;

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** For an attribute in double quotes. */
export const attribute = (text: string): string =>
  text
    .replaceAll(
      hidden,
      (char) => `[U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    )
    .replaceAll(/[&<>"']/g, (char) => entities[char] ?? '');

/** Text in an element of its own direction, so that a name from right to left moves nothing beside it. */
export const escaped = (shown: Shown): string =>
  typeof shown === 'string'
    ? /^[\x20-\x7e]*$/.test(shown)
      ? attribute(shown)
      : `<bdi>${attribute(shown)}</bdi>`
    : shown.html;

export function table(of: {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Shown[])[];
  /** Columns from this one on are numbers. Default: none. */
  readonly numbersFrom?: number;
}): string {
  const { caption, columns, rows, numbersFrom = columns.length } = of;
  const kind = (place: number) => (place >= numbersFrom ? ' class="number"' : '');
  const head = columns.map((title, place) => `<th scope="col"${kind(place)}>${escaped(title)}</th>`).join('');
  const body = rows.map(
    (cells) => `<tr>${cells.map((cell, place) => `<td${kind(place)}>${escaped(cell)}</td>`).join('')}</tr>`,
  );
  return [
    `<div class="wide" role="region" aria-label="${attribute(caption)}" tabindex="0"><table>`,
    `<thead><tr>${head}</tr></thead>`,
    '<tbody>',
    ...body,
    '</tbody>',
    '</table></div>',
  ].join('\n');
}
