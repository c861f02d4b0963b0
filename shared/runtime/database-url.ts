import { type Read, Wrong } from './setting-values.ts';

/** Values of `sslmode`. psql's `allow` is missing, because it sends a password in plain text first. */
export const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

const sessionKinds = ['read-write', 'read-only', 'primary', 'standby', 'prefer-standby'] as const;

/** A `DATABASE_URL`, read. */
export interface DatabaseAddress {
  /** Folder of a Unix socket, which takes precedence over the hosts; null: TCP. */
  readonly socketFolder: string | null;
  /** At least one. An IPv6 address is without brackets. */
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  /** Null: the driver's default. */
  readonly user: string | null;
  readonly password: string | null;
  readonly database: string | null;
  readonly sslMode: SslMode;
  /** A file with certificates of authorities, as PEM; null: those that Node.js knows. */
  readonly sslRootCert: string | null;
  readonly sessionKind: (typeof sessionKinds)[number] | null;
}

const parameterNames = ['host', 'user', 'sslmode', 'sslrootcert', 'target_session_attrs'] as const;
type ParameterName = (typeof parameterNames)[number];

const defaultPort = 5432;
const form =
  /^postgres(?:ql)?:\/\/(?:(?<user>[^@/?#]*)@)?(?<hosts>[^@/?#]*)(?:\/(?<database>[^?#]*))?(?:\?(?<query>[^#]*))?$/;
const hostForm = /^(?:\[(?<v6>[\da-fA-F:.]+)\]|(?<name>[^:[\]]*))(?::(?<port>\d{1,5}))?$/;

/** See docs/database.md. Its messages quote nothing of the text, which may be part of a password. */
export function parseDatabaseUrl(text: string): DatabaseAddress | Wrong {
  const parts = form.exec(text)?.groups;
  if (parts === undefined) {
    return new Wrong(
      'must be a URL that begins with postgres:// or postgresql://, with a user and a password whose characters outside of A-Z, a-z and 0-9 are percent-encoded',
    );
  }
  try {
    return readParts(parts);
  } catch (error) {
    if (error instanceof Wrong) return error;
    if (error instanceof URIError) return new Wrong('has a % that is not percent-encoding: write %25 for it');
    throw error;
  }
}

function readParts({
  user: credentials = '',
  hosts = '',
  database = '',
  query = '',
}: Groups): DatabaseAddress {
  const given = readParameters(query);
  const colon = credentials.indexOf(':');
  const user = colon < 0 ? credentials : credentials.slice(0, colon);
  const password = colon < 0 ? '' : credentials.slice(colon + 1);
  const sslMode = choose(given, 'sslmode', sslModes) ?? 'prefer';
  const sslRootCert = given.get('sslrootcert') ?? null;
  if (sslRootCert === 'system' && sslMode !== 'verify-full') {
    throw new Wrong('must have sslmode=verify-full where sslrootcert is "system"');
  }
  const socketFolder = given.get('host') ?? null;
  if (socketFolder !== null && !socketFolder.startsWith('/')) {
    throw new Wrong(
      'must name its host before the path; the parameter "host" is for the folder of a Unix socket',
    );
  }
  return {
    socketFolder,
    hosts: hosts.split(',').map(readHost),
    user: given.get('user') ?? (decodeURIComponent(user) || null),
    password: decodeURIComponent(password) || null,
    database: decodeURIComponent(database) || null,
    sslMode,
    sslRootCert: sslRootCert === 'system' ? null : sslRootCert,
    sessionKind: choose(given, 'target_session_attrs', sessionKinds),
  };
}

type Groups = Readonly<Record<string, string | undefined>>;

function readParameters(query: string): ReadonlyMap<ParameterName, string> {
  const given = new Map<ParameterName, string>();
  for (const [name, value] of new URLSearchParams(query)) {
    const known = parameterNames.find((one) => one === name);
    if (known === undefined || given.has(known)) {
      throw new Wrong(`may have these parameters, each once: ${parameterNames.join(', ')}`);
    }
    given.set(known, value);
  }
  return given;
}

function choose<const T extends string>(
  given: ReadonlyMap<ParameterName, string>,
  name: ParameterName,
  choices: readonly T[],
): T | null {
  const value = given.get(name);
  if (value === undefined) return null;
  const chosen = choices.find((choice) => choice === value);
  if (chosen === undefined) throw new Wrong(`must have one of these as ${name}: ${choices.join(', ')}`);
  return chosen;
}

function readHost(text: string): { host: string; port: number } {
  const { v6, name = '', port = String(defaultPort) } = hostForm.exec(decodeURIComponent(text))?.groups ?? {};
  if (hostForm.exec(decodeURIComponent(text)) === null || Number(port) > 65_535 || Number(port) === 0) {
    throw new Wrong('must name hosts as name:port or [IPv6 address]:port, several of them with commas');
  }
  return { host: v6 ?? (name || 'localhost'), port: Number(port) };
}

/** As a setting: the text itself, once it can be read. */
export const databaseUrl: Read<string> = (text) => {
  const address = parseDatabaseUrl(text);
  return address instanceof Wrong ? address : text;
};
