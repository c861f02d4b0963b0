import type { Logger } from '../../../shared/runtime/logger.ts';

export interface KeptLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: object;
  readonly message: string;
}

/** A log that keeps its lines, those of its children too. */
export function keptLog(): Logger & { readonly lines: KeptLine[]; text(): string } {
  const lines: KeptLine[] = [];
  const keep = (level: KeptLine['level'], of: object) => (fields: object, message: string) => {
    lines.push({ level, fields: { ...of, ...fields }, message });
  };
  const loggerOf = (of: object): Logger => ({
    debug: keep('debug', of),
    info: keep('info', of),
    warn: keep('warn', of),
    error: keep('error', of),
    child: (fields) => loggerOf({ ...of, ...fields }),
  });
  const text = () => lines.map((line) => JSON.stringify(line, errorsToo)).join('\n');
  return { ...loggerOf({}), lines, text };
}

const errorsToo = (_name: string, value: unknown): unknown =>
  value instanceof Error ? { name: value.name, message: value.message } : value;
