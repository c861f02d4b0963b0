import { limits } from '../model/limits.ts';
import { databaseUrl } from './database-url.ts';
import { type LogLevel, logLevels } from './logger.ts';
import { otelSettings } from './otel-settings.ts';
import { redisUrl } from './redis-url.ts';
import { bothPrograms, type Program, type Setting, setting, type ValuesOf } from './setting.ts';
import {
  type Environment,
  givenSetting,
  namesOfServices,
  serviceHint,
  unknownNames,
} from './setting-source.ts';
import {
  apiKey,
  commandLine,
  headerNames,
  httpUrl,
  liveApiKey,
  masterKey,
  masterKeys,
  oneOf,
  origin,
  shownName,
  text,
  Wrong,
  wholeNumber,
  yesOrNo,
} from './setting-values.ts';
import { mailAddress, smtpUrl } from './smtp-url.ts';
import { StartError } from './start-error.ts';

export type { Program } from './setting.ts';

const both = bothPrograms;
const all = [...both, 'command'] as const;

/**
 * Every setting of both programs (contract §1): the only place with their names, defaults, meanings and
 * forms.
 */
export const settings = {
  PORT: setting({
    of: ['control-plane', 'command'],
    default: '8080',
    doc: 'Port of the control plane; 0 takes a free one.',
    read: wholeNumber({ min: 0, max: 65_535 }),
  }),
  HOST: setting({
    of: ['control-plane', 'command'],
    default: '127.0.0.1',
    doc: 'Address on which the control plane listens.',
    read: text,
  }),
  SIDECAR_PORT: setting({
    of: all,
    default: '8090',
    doc: 'Port of the sidecar; 0 takes a free one.',
    read: wholeNumber({ min: 0, max: 65_535 }),
  }),
  SIDECAR_HOST: setting({
    of: all,
    default: '127.0.0.1',
    doc: 'Address on which the sidecar listens.',
    read: text,
  }),
  DATA_DIR: setting({
    of: all,
    default: './.data',
    doc: 'Folder of the embedded database, the spool and the first-run key files; locked against a second process.',
    read: text,
  }),
  DATABASE_URL: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none: embedded',
    isSecret: true,
    doc: 'PostgreSQL 15 or newer; TLS by sslmode and sslrootcert (docs/database.md).',
    read: databaseUrl,
  }),
  DATABASE_READ_URL: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none',
    isSecret: true,
    doc: 'A streaming replica of the database: lists, exports, discovery and statistics are read there, at most 5 s old (docs/database.md).',
    read: databaseUrl,
  }),
  DATABASE_CONNECTIONS: setting({
    of: ['control-plane'],
    default: String(limits.databaseConnectionsMax),
    doc: 'Connections to PostgreSQL that one control plane opens at most, and as many to DATABASE_READ_URL. The server has to allow as many for each replica.',
    read: wholeNumber(limits.databaseConnectionsRange),
  }),
  BACKGROUND_CONVERSIONS: setting({
    of: ['control-plane'],
    default: '1',
    doc: '0: this control plane converts no rows in the background after an upgrade. Where all have 0, a conversion pauses (docs/operate/upgrade.md).',
    read: yesOrNo,
  }),
  RECORDS_V2_AFTER_S: setting({
    of: ['control-plane'],
    default: '86400',
    unit: 's',
    doc: 'How long after the upgrade of a database from 0.2.0 its new records stay in the form that 0.2.0 can read (docs/operate/upgrade.md).',
    read: wholeNumber({ min: 0, max: 90 * 86_400 }),
  }),
  REDIS_URL: setting({
    of: both,
    default: null,
    defaultDoc: 'none: in-process push, or long poll between processes',
    isSecret: true,
    doc: 'Redis 7 or Valkey, to push changes; rediss:// with sslmode and sslrootcert for TLS (docs/redis.md). Nothing is stored in it.',
    read: redisUrl,
  }),
  ADMIN_API_KEY: setting({
    of: ['control-plane', 'command'],
    default: null,
    defaultDoc: 'none: generated',
    isSecret: true,
    doc: 'The first key of the first account: at_live_ or at_test_ and 32 to 128 characters.',
    read: apiKey,
  }),
  CONTROL_PLANE_URL: setting({
    of: ['sidecar', 'command'],
    default: null,
    defaultDoc: 'needed by a sidecar on its own',
    doc: 'Origin of the control plane, without /v1.',
    read: origin,
  }),
  SIDECAR_API_KEY: setting({
    of: ['sidecar'],
    default: null,
    defaultDoc: 'needed by a sidecar on its own',
    isSecret: true,
    doc: "A live key with the scope sidecars:connect. The sidecar serves the gates of that key's account and accepts callers with keys of that account.",
    read: liveApiKey,
  }),
  SIDECAR_THREADS: setting({
    of: ['sidecar'],
    default: '1',
    unit: 'threads',
    doc: 'Listening threads of one sidecar, on one port.',
    read: wholeNumber({ min: 1, max: 64 }),
  }),
  SPOOL_FSYNC_MS: setting({
    of: ['sidecar'],
    default: '50',
    unit: 'ms',
    doc: 'At most this long between a decision and its record on disk; 0: on disk before every answer.',
    read: wholeNumber({ min: 0, max: 60_000 }),
  }),
  SPOOL_KEEP_SHIPPED_S: setting({
    of: ['sidecar'],
    default: '86400',
    unit: 's',
    doc: 'How long shipped records are kept on disk, 1 GiB at most, to be handed in again after a restore of the database; 0: not at all.',
    read: wholeNumber({ min: 0, max: 30 * 86_400 }),
  }),
  MASTER_KEY: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'generated into DATA_DIR when the database is embedded, else required',
    isSecret: true,
    doc: '32 bytes as base64url; seals signing keys and all other secrets at rest (docs/operate/hardening.md).',
    read: masterKey,
  }),
  MASTER_KEY_COMMAND: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none',
    doc: 'In place of MASTER_KEY: a program that prints it, with its arguments as a JSON array. Run at the start, without a shell.',
    read: commandLine,
  }),
  MASTER_KEY_FALLBACKS: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none',
    isSecret: true,
    doc: 'Other master keys, separated by commas, that open what they sealed while MASTER_KEY changes: the next one before, the previous one after. Only MASTER_KEY seals.',
    read: masterKeys,
  }),
  PUBLIC_URL: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'from HOST and PORT',
    doc: 'Origin of the control plane as clients reach it, for addresses in answers and tokens.',
    read: origin,
  }),
  GATE_HOST: setting({
    of: ['control-plane', 'sidecar'],
    default: null,
    defaultDoc: 'from SIDECAR_HOST and SIDECAR_PORT',
    doc: 'Origin of the sidecar as resource servers reach it, for the gate_url of gates and the AuthZEN metadata.',
    read: origin,
  }),
  WEBHOOK_ALLOW_PRIVATE: setting({
    of: ['control-plane'],
    default: '0',
    doc: '1: webhooks may go to private and loopback addresses, never to link-local ones, and over http. For tests.',
    read: yesOrNo,
  }),
  LOG_WITNESSES: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none',
    doc: 'File with the witnesses of the transparency log and their quorum, as C2SP tlog-policy (docs/log.md).',
    read: text,
  }),
  SMTP_URL: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none: channels of the kind email are refused',
    isSecret: true,
    doc: 'The mail server of channels, such as smtps://user:password@mail.example.com; smtp:// upgrades to TLS by STARTTLS, which only loopback goes without (docs/channels.md).',
    read: smtpUrl,
  }),
  SMTP_FROM: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'needed with SMTP_URL',
    doc: 'Address from which mails come.',
    read: mailAddress,
  }),
  MCP_API_KEYS: setting({
    of: ['control-plane'],
    default: '0',
    doc: '1: API keys open /mcp too, for clients without OAuth. A model that can read its configuration can then read a key.',
    read: yesOrNo,
  }),
  SESSION_IDLE_S: setting({
    of: ['control-plane'],
    default: '1800',
    unit: 's',
    doc: 'A browser session ends so long after its last request.',
    read: wholeNumber({ min: 60, max: 86_400 }),
  }),
  SESSION_MAX_S: setting({
    of: ['control-plane'],
    default: '43200',
    unit: 's',
    doc: 'A browser session ends so long after its login, whatever happens.',
    read: wholeNumber({ min: 60, max: 2_592_000 }),
  }),
  OIDC_ISSUER: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'none: people log in with passwords and passkeys',
    doc: 'Issuer of an OpenID Connect provider with which people log in to the console (docs/people.md).',
    read: httpUrl,
  }),
  OIDC_CLIENT_ID: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'needed with OIDC_ISSUER',
    doc: 'Name under which this service is registered with the provider.',
    read: text,
  }),
  OIDC_CLIENT_SECRET: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'needed with OIDC_ISSUER',
    isSecret: true,
    doc: 'Secret of that registration.',
    read: text,
  }),
  OIDC_NAME: setting({
    of: ['control-plane'],
    default: null,
    defaultDoc: 'the host of OIDC_ISSUER',
    doc: 'Name of the provider, as the button of the login page shows it.',
    read: shownName,
  }),
  OIDC_ALLOW_PRIVATE: setting({
    of: ['control-plane'],
    default: '0',
    doc: '1: the provider may be at a private or loopback address, never a link-local one, and be called over http.',
    read: yesOrNo,
  }),
  FORWARD_AUTH_TRUST: setting({
    of: ['sidecar'],
    default: 'loopback',
    doc: 'Who may use the per-gate address without a key: loopback, or none.',
    read: oneOf('loopback', 'none'),
  }),
  FORWARD_AUTH_HEADERS: setting({
    of: ['sidecar'],
    default: null,
    defaultDoc: 'empty',
    doc: 'Headers that the proxy sets itself, from which the per-gate address may read context, separated by commas.',
    read: headerNames,
  }),
  SIDECAR_HTTP: setting({
    of: ['sidecar'],
    default: 'uws',
    doc: 'The HTTP server of the sidecar: uws (uWebSockets.js; node, with a warning, where it does not load) or node (node:http, slower).',
    read: oneOf('uws', 'node'),
  }),
  DRAIN_GRACE_MS: setting({
    of: [...both, 'mcp-proxy'],
    default: '0',
    unit: 'ms',
    doc: 'How long the port stays open after SIGTERM, with /readyz 503 and Connection: close, so that load balancers stop sending first.',
    read: wholeNumber({ min: 0, max: limits.drainGraceMsMax }),
  }),
  LOG_LEVEL: setting({
    of: [...both, 'mcp-proxy'],
    default: 'info',
    doc: `How much is logged on standard error, as JSON lines or, on a terminal, as lines for people: ${logLevels.join(', ')}.`,
    read: oneOf<LogLevel>(...logLevels),
  }),
  ...otelSettings,
};

export type SettingName = keyof typeof settings;

export type SettingValues = ValuesOf<typeof settings>;

/** The required settings of a sidecar; a control plane in the same process may provide them. */
export interface SidecarSettings extends SettingValues {
  readonly CONTROL_PLANE_URL: string;
  readonly SIDECAR_API_KEY: string;
}

export type { Environment } from './setting-source.ts';

/** All faults of the settings at once, so that the operator can fix them in one go. */
export class SettingsError extends StartError {
  override readonly name = 'SettingsError';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads the settings of the programs that start in this process, each from where givenSetting finds it;
 * settings of other programs are not read and have their defaults. Throws SettingsError, also for an
 * `AGENT_TRUST_*` variable that is no setting.
 */
export function parseSettings(programs: readonly Program[], environment: Environment): SettingValues {
  const { values, problems } = readSettings(programs, environment);
  if (
    programs.includes('control-plane') &&
    isSet(environment, 'DATABASE_URL') &&
    !isSet(environment, 'MASTER_KEY') &&
    !isSet(environment, 'MASTER_KEY_COMMAND')
  ) {
    problems.push(
      'MASTER_KEY must be set where DATABASE_URL is: 32 bytes as base64url. To make one: ' +
        "openssl rand -base64 32 | tr '+/' '-_' | tr -d '='",
    );
  }
  if (programs.includes('control-plane')) {
    // Which of two is meant cannot be known.
    if (isSet(environment, 'MASTER_KEY') && isSet(environment, 'MASTER_KEY_COMMAND'))
      problems.push('MASTER_KEY is given twice, by MASTER_KEY and by MASTER_KEY_COMMAND: unset one of them.');
    problems.push(...incomplete(['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'], environment));
    problems.push(...incomplete(['SMTP_URL', 'SMTP_FROM'], environment));
  }
  if (problems.length > 0) throw new SettingsError(problems);
  return values;
}

/** These settings are given together or not at all. */
function incomplete(names: readonly SettingName[], environment: Environment): string[] {
  const given = names.filter((name) => isSet(environment, name));
  if (given.length === 0) return [];
  return names
    .filter((name) => !given.includes(name))
    .map((name) => `${name} must be set where ${given[0]} is.`);
}

/** Reads the settings of a sidecar on its own. Throws SettingsError. */
export function parseSidecarSettings(environment: Environment): SidecarSettings {
  const { values, problems } = readSettings(['sidecar'], environment);
  for (const name of ['CONTROL_PLANE_URL', 'SIDECAR_API_KEY'] as const) {
    if (!isSet(environment, name)) problems.push(`${name} must be set for a sidecar on its own.`);
  }
  const { CONTROL_PLANE_URL, SIDECAR_API_KEY } = values;
  if (problems.length > 0 || CONTROL_PLANE_URL === null || SIDECAR_API_KEY === null)
    throw new SettingsError(problems);
  return { ...values, CONTROL_PLANE_URL, SIDECAR_API_KEY };
}

function readSettings(
  programs: readonly Program[],
  environment: Environment,
): { readonly values: SettingValues; readonly problems: string[] } {
  const problems: string[] = [];
  const readOne = ([name, row]: readonly [string, Setting<unknown, string | null>]): [string, unknown] => {
    const isOurs = row.of.some((program) => programs.includes(program));
    const given = isOurs ? givenSetting(name, environment, { isSecret: row.isSecret === true }) : null;
    if (given instanceof Wrong) {
      problems.push(`${name} ${given.sentence}.`);
      return [name, null];
    }
    const text = given?.text ?? row.default;
    const value = text === null ? null : row.read(text);
    if (!(value instanceof Wrong)) return [name, value];
    const source = given?.file ? ` (read from ${given.file})` : '';
    const variable = given?.variable ?? name;
    const shown = row.isSecret ? '' : `, not "${text}"${serviceHint(variable, text ?? '')}`;
    problems.push(`${variable} ${value.sentence}${source}${shown}.`);
    return [name, null];
  };
  // Each row reads its own type, which the type of Object.fromEntries cannot express.
  const values = Object.fromEntries(Object.entries(settings).map(readOne)) as SettingValues;
  problems.push(...unknownNames(environment, settings));
  return { values, problems };
}

/** See `namesOfServices`; logged once the program can log. */
export const ignoredSettings = (environment: Environment): readonly string[] =>
  namesOfServices(environment, settings);

/** Whether any value is given, valid or not. */
const isSet = (environment: Environment, name: SettingName): boolean =>
  givenSetting(name, environment, { isSecret: settings[name].isSecret === true }) !== null;

/** The origin of that listener from the same machine. */
export function originOf(listener: { readonly host: string; readonly port: number }): string {
  // These mean "all addresses" and cannot be called.
  const host = listener.host === '0.0.0.0' || listener.host === '::' ? '127.0.0.1' : listener.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${listener.port}`;
}
