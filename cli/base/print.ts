import { styleText } from 'node:util';
import { visible } from '../../shared/model/plain-text.ts';
import type { Environment } from '../../shared/runtime/settings.ts';
import { writeYaml } from './read-yaml.ts';
import type { TextSink } from './text-sink.ts';

type Cell = string | number | null | undefined;
type CellMember<Item> = {
  [Name in keyof Item]-?: Item[Name] extends Cell ? Name : never;
}[keyof Item];

/** The columns of a table by their titles: each shows a member of an item, or what a function makes of it. */
export type Columns<Item> = Readonly<Record<string, CellMember<Item> | ((item: Item) => Cell)>>;

/** Writes what a command found: for scripts as JSON, one object a line; for people as tables and YAML. */
export interface Printer {
  readonly isJson: boolean;
  /** One object. */
  item(object: object): void;
  /** A page of a table; the first one has the titles. */
  rows<Item extends object>(columns: Columns<Item>, items: readonly Item[], isFirst?: boolean): void;
  /** A sentence for people, on standard error. */
  say(text: string): void;
}

type Style = 'bold' | 'green' | 'yellow' | 'red' | 'dim';
export type Paint = (style: Style, text: string) => string;

/** Colours on a terminal, unless NO_COLOR is set (no-color.org). */
export const paintFor =
  (sink: TextSink, env: Environment): Paint =>
  (style, text) =>
    sink.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
      ? styleText(style, text, { validateStream: false })
      : text;

export function printerOf(options: {
  readonly output: TextSink;
  readonly errors: TextSink;
  readonly env: Environment;
  readonly isJson: boolean;
}): Printer {
  const { output, errors, env, isJson } = options;
  const paint = paintFor(output, env);
  return {
    isJson,
    item: (object) => output.write(isJson ? jsonLine(object) : writeYaml(object)),
    rows: (columns, items, isFirst = true) => {
      if (isJson) for (const item of items) output.write(jsonLine(item));
      else output.write(table(columns, items, { paint, hasTitles: isFirst }));
    },
    say: (text) => errors.write(`${visible(text)}\n`),
  };
}

export const jsonLine = (object: object): string => `${JSON.stringify(object)}\n`;

function table<Item>(
  columns: Columns<Item>,
  items: readonly Item[],
  { paint, hasTitles }: { readonly paint: Paint; readonly hasTitles: boolean },
): string {
  const shown = Object.values(columns);
  const cells = items.map((item) =>
    shown.map((of) => cell(typeof of === 'function' ? of(item) : (item[of] as Cell))),
  );
  const titles = Object.keys(columns).map((title) => title.toUpperCase());
  const all = hasTitles ? [titles, ...cells] : cells;
  const widths = titles.map((_, place) => Math.max(...all.map((row) => row[place]?.length ?? 0)));
  return all
    .map((row, place) => {
      const line = row
        .map((text, at) => text.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd();
      return `${hasTitles && place === 0 ? paint('bold', line) : colourStatus(line, paint)}\n`;
    })
    .join('');
}

const cell = (value: Cell): string =>
  value === null || value === undefined || value === '' ? '-' : visible(String(value)).replaceAll('\n', ' ');

const styles: readonly (readonly [RegExp, Style])[] = [
  [/(?<= |^)(?:active|enabled|PERMIT|approved|succeeded|pinned)(?= |$)/, 'green'],
  [/(?<= |^)(?:suspended|SUSPEND|pending|expired|changed)(?= |$)/, 'yellow'],
  [/(?<= |^)(?:revoked|disabled|BLOCK|denied|failed|rejected)(?= |$)/, 'red'],
];

function colourStatus(line: string, paint: Paint): string {
  const found = styles.find(([pattern]) => pattern.test(line));
  return found === undefined ? line : line.replace(found[0], (word) => paint(found[1], word));
}
