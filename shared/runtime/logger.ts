import { isatty } from 'node:tty';
import { pino } from 'pino';
import { currentTrace } from './current-trace.ts';
import { readableLogLine } from './readable-log-line.ts';

/**
 * The programs' logger. `fields` never hold a token, key, authorization header or personal data; the
 * redaction below is only a second line of defence. Lines of a request with a `traceparent` name its trace.
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

const standardError = 2;

/** Buffered while standard error accepts nothing, as on a full disk; more is dropped. */
const unwrittenBytesMax = 64 * 1024;

/**
 * Writes to standard error, because standard output is for requested output: JSON lines with ISO 8601 time
 * and the level as a word, or readable lines on a terminal. Each line is written before the call returns, so
 * none is lost at the end of the process. A line that cannot be written (a closed terminal, a full disk) is
 * dropped.
 */
export function standardErrorLogger(options: { readonly level: LogLevel; readonly name: string }): Logger {
  const file = pino.destination({ fd: standardError, sync: true, maxLength: unwrittenBytesMax });
  file.on('error', () => undefined);
  return pino(
    {
      name: options.name,
      level: options.level,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      mixin: () => {
        const trace = currentTrace();
        return trace === null ? {} : { trace_id: trace.traceId };
      },
      redact: {
        paths: secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
        censor: '[redacted]',
      },
    },
    isatty(standardError) ? { write: (line) => file.write(readableLogLine(line)) } : file,
  );
}

export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
};
