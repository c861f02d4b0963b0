import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const loggerModule = fileURLToPath(new URL('../../shared/runtime/logger.ts', import.meta.url));
const control = ['\u001b', '\u0085', '\u202e'];

/**
 * What a process writes that logs so; `terminal`: its standard error is one (script(1) gives it a
 * pseudo-terminal).
 */
function logged(code: string, to: 'file' | 'terminal'): string {
  const program = `
    import { standardErrorLogger } from ${JSON.stringify(loggerModule)};
    const logger = standardErrorLogger({ name: 'test', level: 'debug' });
    ${code}`;
  const command = 'exec "$NODE" --import tsx --input-type=module -e "$PROGRAM" 2>&1';
  const env = { ...process.env, NODE: process.execPath, PROGRAM: program };
  const output =
    to === 'file'
      ? execFileSync('sh', ['-c', command], { encoding: 'utf8', env })
      : execFileSync('script', ['-qec', command, '/dev/null'], { encoding: 'utf8', env });
  return output.replaceAll('\r\n', '\n');
}

describe('the log', () => {
  it('has ISO times and level words in its JSON lines', () => {
    const lines = logged(
      `logger.info({ port: 1 }, 'one'); logger.child({ program: 'sidecar' }).warn({}, 'two');`,
      'file',
    )
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      { level: 'info', name: 'test', port: 1, msg: 'one' },
      { level: 'warn', name: 'test', program: 'sidecar', msg: 'two' },
    ]);
    for (const { time } of lines) {
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(600_000);
    }
  });

  it('has lines for a person on a terminal', () => {
    const output = logged(
      `logger.child({ program: 'sidecar' }).info({ port: 8090, server: 'node:http', why: null }, 'listening');
       logger.child({ thread: 1 }).error({ err: new Error('broken') }, 'failed');`,
      'terminal',
    );
    const [first, second, ...stack] = output.split('\n');
    expect(first).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} INFO {2}sidecar {2}listening {2}port=8090 {2}server=node:http {2}why=null$/,
    );
    expect(second).toMatch(/^\d\d:\d\d:\d\d\.\d{3} ERROR test\/1 {2}failed$/);
    expect(stack[0]).toBe('    Error: broken');
    expect(stack[1]).toMatch(/^ {4}at /);
  });

  it('lets no control character of a value, a message or an error reach the terminal', () => {
    const text = JSON.stringify(`a${control[0]}[2Jb\nc${control[1]}${control[2]}`);
    const output = logged(
      `logger.info({ value: ${text}, [${text}]: 1, nested: { deep: ${text} } }, ${text});
       logger.warn({ err: new Error(${text}) }, 'x');`,
      'terminal',
    );
    for (const character of control) expect(output).not.toContain(character);
    expect(output).toContain('a\\u001b[2Jb');
    expect(output.split('\n')[0]).toContain('deep');
  });

  it.each(['file', 'terminal'] as const)('redacts secrets at every depth that our code logs (%s)', (to) => {
    const output = logged(
      `logger.info({ authorization: 'SECRET-1', request: { passport: 'SECRET-2', headers: { authorization: 'SECRET-3' } }, plain: 'kept' }, 'hello');
       logger.child({ key: 'SECRET-4' }).warn({ private_key: 'SECRET-5' }, 'again');`,
      to,
    );
    expect(output).toContain('hello');
    expect(output).toContain('kept');
    expect(output).toContain('[redacted]');
    expect(output).not.toContain('SECRET');
  });
});
