import { pino } from 'pino';

/**
 * What the programs log through. `fields` never hold a token, key, authorization header or personal data;
 * the redaction below is the second line of defence, not the first.
 */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

const secretNames = [
  'authorization',
  'passport',
  'passport_token',
  'private_key',
  'jwt',
  'token',
  'secret',
  'key',
  'api_key',
];

/** JSON lines on standard error: standard output belongs to what a person asked for. */
export const jsonLogger = (options: { readonly level: LogLevel; readonly name: string }): Logger =>
  pino(
    {
      name: options.name,
      level: options.level,
      redact: {
        paths: secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
        censor: '[redacted]',
      },
    },
    pino.destination({ fd: 2, sync: true }),
  );

export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
};
