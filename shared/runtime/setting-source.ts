import { readFileSync } from 'node:fs';
import { Wrong } from './setting-values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A setting's text and its source. */
export interface Given {
  readonly text: string;
  /** The name of the variable in the environment. */
  readonly variable: string;
  /** The file that the variable names; null if it holds the text itself. */
  readonly file: string | null;
}

const prefix = 'AGENT_TRUST_';
const fileSuffix = '_FILE';
/**
 * A secret is one line; the longest is a connection string. A larger file is a mistake, which must not be
 * read into memory.
 */
const secretFileBytesMax = 64 * 1024;

/** The address of a Service, as Kubernetes and container links set it in every container. */
const serviceAddress = /^(?:tcp|udp|sctp):\/\/(?:\[[0-9a-f:.]+\]|[\d.]+):\d{1,5}$/i;

/** Variables of commands (docs/cli.md): neither settings of the service nor typing errors. */
const namesOfCommands: ReadonlySet<string> = new Set([
  'AGENT_TRUST_API_KEY',
  'AGENT_TRUST_PASSPORT',
  'AGENT_TRUST_PASSPORT_FILE',
  'AGENT_TRUST_PROFILE',
  'AGENT_TRUST_URL',
  'AGENT_TRUST_WEBHOOK_SECRET',
]);

/**
 * Finds the text of the setting `name` (contract §1): in `AGENT_TRUST_<name>`, which wins, else in `<name>`;
 * for a secret also in the file that `AGENT_TRUST_<name>_FILE` or `<name>_FILE` names, without the line break
 * at its end. Null: nothing is given. An empty variable counts as not given, because that is what `${NAME:-}`
 * of a compose file makes of one; so does the address of a Service whose name happens to be ours
 * (`isOfService`); an empty file is an error, because a mount that failed leaves one. Returns Wrong, which
 * names the variable, for a value and a file at once and for a file that holds no single line.
 */
export function givenSetting(
  name: string,
  environment: Environment,
  { isSecret }: { readonly isSecret: boolean },
): Given | Wrong | null {
  for (const variable of [`${prefix}${name}`, name]) {
    const text = isOfService(variable, environment) ? '' : (environment[variable] ?? '');
    const fileVariable = `${variable}${fileSuffix}`;
    const file = isSecret ? (environment[fileVariable] ?? '') : '';
    if (text !== '' && file !== '')
      return new Wrong(`is given twice, by ${variable} and by ${fileVariable}: unset one of them`);
    if (text !== '') return { text, variable, file: null };
    if (file !== '') return readSecret(fileVariable, file);
  }
  return null;
}

/**
 * Whether the platform set this variable, not the operator: for a Service called `sidecar` Kubernetes sets
 * SIDECAR_PORT=tcp://10.0.0.1:8090. Names with our prefix are ours alone, so there it is an error.
 */
function isOfService(variable: string, environment: Environment): boolean {
  const isServicePort = variable.endsWith('_PORT') && !variable.startsWith(prefix);
  return isServicePort && serviceAddress.test(environment[variable] ?? '');
}

/** Settings that are ignored because their variables hold the address of a Service. */
export const namesOfServices = (environment: Environment, settings: Readonly<Record<string, unknown>>) =>
  Object.keys(settings).filter((name) => isOfService(name, environment));

/** The remedy for the address of a Service in a variable of ours; empty: none. */
export const serviceHint = (variable: string, text: string): string =>
  serviceAddress.test(text)
    ? `. Kubernetes sets ${variable} for a Service called ${variable.slice(0, variable.lastIndexOf('_')).toLowerCase().replaceAll('_', '-')}; set enableServiceLinks: false in the pod, or rename the Service`
    : '';

/** The message names the file, never its content. */
function readSecret(variable: string, file: string): Given | Wrong {
  const wrong = (problem: string) => new Wrong(`is read from ${file} (${variable}), ${problem}`);
  let content: Buffer;
  try {
    content = readFileSync(file);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    return wrong(`which cannot be read (${code})`);
  }
  if (content.byteLength > secretFileBytesMax) return wrong(`which is over ${secretFileBytesMax} bytes long`);
  const text = content.toString('utf8').replace(/\r?\n$/, '');
  if (content.byteLength === 0) return wrong('which is empty');
  if (text.trim() === '') return wrong('which holds only white space');
  if (/[\r\n]/.test(text)) return wrong('which must hold one line and holds several');
  if (text.trim() !== text) return wrong('which has white space before or after the value');
  return { text, variable, file };
}

/**
 * Errors for `AGENT_TRUST_*` variables that are no settings: a typing error would silently leave a default in
 * force.
 */
export function unknownNames(
  environment: Environment,
  settings: Readonly<Record<string, { readonly isSecret?: true }>>,
): readonly string[] {
  return Object.keys(environment)
    .filter((variable) => variable.startsWith(prefix) && !namesOfCommands.has(variable))
    .flatMap((variable) => {
      const name = variable.slice(prefix.length);
      if (Object.hasOwn(settings, name)) return [];
      const ofFile = name.endsWith(fileSuffix) ? name.slice(0, -fileSuffix.length) : null;
      const row = ofFile !== null && Object.hasOwn(settings, ofFile) ? settings[ofFile] : undefined;
      if (row?.isSecret) return [];
      if (row !== undefined)
        return [
          `${variable} is not supported: ${ofFile} is not a secret, and only secrets are read from files.`,
        ];
      return [`${variable} is not a setting${hint(variable)}.`];
    })
    .sort();
}

/** Variables that Kubernetes sets for a Service called `agent-trust`. */
const hint = (variable: string): string =>
  /_SERVICE_(?:HOST|PORT)|_PORT_\d+_(?:TCP|UDP)/.test(variable)
    ? ': Kubernetes sets it for a Service called agent-trust; set enableServiceLinks: false in the pod, or rename the Service'
    : '; --help lists all settings';
