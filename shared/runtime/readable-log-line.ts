import { isJsonObject, type JsonObject } from '../crypto/json-object.ts';

/**
 * A log line for a person at a terminal: time of day in UTC, level, who, message, and the other fields as
 * `name=value`; the stack of an error on lines of its own. `json` is one line of the JSON log, with its line
 * feed; anything else comes back unchanged.
 *
 *     06:31:12.123 INFO  sidecar  sidecar is listening  port=8090  server=uWebSockets.js
 *
 * Values may come from callers, so no control character reaches the terminal.
 */
export function readableLogLine(json: string): string {
  const line = parseLine(json);
  if (line === null) return json;
  const { level, time, pid: _pid, hostname: _hostname, name, program, thread, msg, err, ...fields } = line;
  const clock = String(time).slice(11, 23);
  const source = [program ?? name, thread].filter((part) => part !== undefined).join('/');
  const head = `${clock} ${String(level).toUpperCase().padEnd(5)} ${source}  ${msg}`;
  const rest = Object.entries(fields).map(([key, value]) => `${key}=${valueText(value)}`);
  return `${shown([head, ...rest].join('  '))}\n${errorText(err)}`;
}

function parseLine(json: string): JsonObject | null {
  try {
    const line: unknown = JSON.parse(json);
    return isJsonObject(line) ? line : null;
  } catch {
    return null;
  }
}

const unquoted = /^[\w./:@%+-]+$/;

const valueText = (value: unknown): string =>
  typeof value === 'string' && unquoted.test(value) ? value : JSON.stringify(value);

function errorText(err: unknown): string {
  if (err === undefined) return '';
  const text = isJsonObject(err) ? String(err['stack'] ?? err['message']) : valueText(err);
  return text
    .split('\n')
    .map((line) => `    ${shown(line.trim())}\n`)
    .join('');
}

/** C0, DEL, C1 and direction marks as `\u` escapes. */
const shown = (text: string): string =>
  text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
    /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
