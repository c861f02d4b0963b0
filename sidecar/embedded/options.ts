import type { Logger, LogLevel } from '../../shared/runtime/logger.ts';
import { parseSidecarSettings, SettingsError, type SidecarSettings } from '../../shared/runtime/settings.ts';
import { embeddedLimits } from './limits.ts';

/**
 * The program's own logger, with the methods of pino. `fields` hold no token and no key. Exceptions of a
 * method are dropped.
 */
export interface EmbeddedLogger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The settings of a sidecar (contract §1) under the names of a program; the environment is not read. */
export interface EmbeddedOptions {
  /** CONTROL_PLANE_URL: origin of the control plane, without `/v1`. */
  readonly controlPlaneUrl: string;
  /** SIDECAR_API_KEY: a live key with the scope `sidecars:connect`. Its account's gates are served. */
  readonly apiKey: string;
  /** DATA_DIR: a persistent folder of this program alone. Default `./.data`. */
  readonly dataDir?: string;
  /** REDIS_URL: Redis 7 or Valkey, for pushed changes. Default: none, long polls. */
  readonly redisUrl?: string;
  /**
   * SPOOL_FSYNC_MS: at most this long between a decision and its record on disk, in milliseconds, 0 to
   * 60,000; 0: on disk before every answer. Default 50.
   */
  readonly spoolFsyncMs?: number;
  /** LOG_LEVEL on standard error. Default `info`. */
  readonly logLevel?: LogLevel;
  /** Replaces standard error. */
  readonly logger?: EmbeddedLogger;
  /** How long the start waits for a state to decide on, in milliseconds, 0 to 60,000. Default 5,000. */
  readonly readyWaitMs?: number;
}

const settingOf = {
  controlPlaneUrl: 'CONTROL_PLANE_URL',
  apiKey: 'SIDECAR_API_KEY',
  dataDir: 'DATA_DIR',
  redisUrl: 'REDIS_URL',
  spoolFsyncMs: 'SPOOL_FSYNC_MS',
  logLevel: 'LOG_LEVEL',
} as const;

/**
 * Throws TypeError with every fault of the options by name, without values of secrets. Null counts as absent.
 */
export function settingsOf(options: EmbeddedOptions): SidecarSettings {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(
      'startEmbedded takes an object with its options, controlPlaneUrl and apiKey at least.',
    );
  const given = Object.entries(settingOf).map(([option, setting]) => {
    const value = options[option as keyof typeof settingOf] ?? undefined;
    return [setting, value === undefined ? undefined : String(value)] as const;
  });
  const problems = Object.keys(options)
    .filter((name) => !Object.hasOwn(settingOf, name) && name !== 'logger' && name !== 'readyWaitMs')
    .map((name) => `${name} is not an option.`);
  const readyWaitMs: unknown = readyWaitOf(options);
  const isWait =
    typeof readyWaitMs === 'number' && readyWaitMs >= 0 && readyWaitMs <= embeddedLimits.readyWaitMsMax;
  if (!isWait) problems.push(`readyWaitMs must be a number from 0 to ${embeddedLimits.readyWaitMsMax}.`);
  const logger = givenLogger(options);
  if (logger !== null && !levels.every((level) => typeof logger[level] === 'function'))
    problems.push(`logger must have the methods ${levels.join(', ')}.`);
  try {
    const settings = parseSidecarSettings(Object.fromEntries(given));
    if (problems.length === 0) return settings;
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    problems.push(...error.problems.map(inNamesOfOptions));
  }
  throw new TypeError(problems.join('\n'));
}

export const readyWaitOf = ({ readyWaitMs }: EmbeddedOptions): number =>
  readyWaitMs ?? embeddedLimits.readyWaitMsDefault;

/** Null: it logs on standard error. */
export const givenLogger = ({ logger }: EmbeddedOptions): EmbeddedLogger | null => logger ?? null;

const levels = ['debug', 'info', 'warn', 'error'] as const;

const inNamesOfOptions = (problem: string): string =>
  Object.entries(settingOf).reduce(
    (text, [option, setting]) => text.replace(setting, option),
    problem.replace(' for a sidecar on its own', ''),
  );

/** The program's logger as a `Logger`. */
export function loggerOf(logger: EmbeddedLogger, bound: object = {}): Logger {
  const log = (level: keyof EmbeddedLogger) => (fields: object, message: string) => {
    try {
      logger[level]({ ...bound, ...fields }, message);
    } catch {
      // A failing logger must not fail a decision.
    }
  };
  return {
    debug: log('debug'),
    info: log('info'),
    warn: log('warn'),
    error: log('error'),
    child: (fields) => loggerOf(logger, { ...bound, ...fields }),
  };
}
