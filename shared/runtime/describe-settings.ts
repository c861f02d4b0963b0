import { givenSetting } from './setting-source.ts';
import { Wrong } from './setting-values.ts';
import { type Environment, type Program, type SettingName, settings } from './settings.ts';

interface Described {
  readonly name: string;
  readonly row: (typeof settings)[SettingName];
}

const described: readonly Described[] = Object.entries(settings).map(([name, row]) => ({ name, row }));

/**
 * The settings of these programs for `--help`: meaning, default and current value of each; a secret only
 * shows that it is set.
 */
export function describeSettings(programs: readonly Program[], environment: Environment): string {
  const rows = described.filter(({ row }) => row.of.some((program) => programs.includes(program)));
  const nameWidth = Math.max(...rows.map(({ name }) => name.length));
  return rows
    .map(({ name, row }) => {
      const now = shownNow(name, row, environment);
      return `  ${name.padEnd(nameWidth)}  ${row.doc}\n  ${' '.repeat(nameWidth)}  [${defaultOf(row)}${now}]`;
    })
    .join('\n');
}

function shownNow(name: string, row: Described['row'], environment: Environment): string {
  const given = givenSetting(name, environment, { isSecret: row.isSecret === true });
  if (given === null) return '';
  if (given instanceof Wrong) return `; now: ${given.sentence}`;
  if (row.isSecret !== true) return `; now ${given.text}`;
  return given.file === null ? '; now (set, not shown)' : `; now (in ${given.file}, not shown)`;
}

/** Footer of `--help`. */
export const settingSourcesHelp =
  'Each is also read as AGENT_TRUST_<NAME>, which wins; each secret also from the file that <NAME>_FILE names.';

/** The table of docs/settings.md. */
export function renderSettingsTable(): string {
  const lines = described.map(
    ({ name, row }) =>
      `| \`${name}\` | ${defaultOf(row)} | ${row.of.join(', ')} | ${row.doc}${row.isSecret ? ' Secret.' : ''} |`,
  );
  return ['| variable | default | of | meaning |', '|---|---|---|---|', ...lines, ''].join('\n');
}

const defaultOf = (row: Described['row']): string =>
  row.defaultDoc ?? `${row.default}${row.unit === undefined ? '' : ` ${row.unit}`}`;
