import type { ReadStream } from 'node:tty';
import { CommandError, UsageError } from './call-api.ts';
import { cliLimits } from './limits.ts';
import type { TextSink } from './text-sink.ts';

/** Standard input: a terminal, or what is piped into the command. */
export type Input = NodeJS.ReadableStream & Partial<Pick<ReadStream, 'isTTY' | 'setRawMode'>>;

export interface Dialogue {
  readonly stdin: Input;
  /** Prompts go to standard error: standard output is for data. */
  readonly errors: TextSink;
}

/** A line that is typed without an echo, or the first line of what is piped in. */
export async function readSecret({ stdin, errors }: Dialogue, prompt: string): Promise<string> {
  if (stdin.isTTY !== true) return readLine(stdin);
  // Before the prompt: what is typed as soon as it shows must not be echoed.
  stdin.setRawMode?.(true);
  try {
    errors.write(prompt);
    return await readTyped(stdin);
  } finally {
    stdin.setRawMode?.(false);
    errors.write('\n');
  }
}

/** Whether the person says yes. Throws UsageError where none is there: `--yes` says it for scripts. */
export async function confirm({ stdin, errors }: Dialogue, question: string): Promise<boolean> {
  if (stdin.isTTY !== true)
    throw new UsageError(`${question} Say so with --yes: no terminal is here to ask at.`);
  errors.write(`${question} [y/N] `);
  return /^y(?:es)?$/i.test((await readLine(stdin)).trim());
}

/** The line that is typed; null where there is none any more, or the signal came. */
export async function ask(
  { stdin, errors }: Dialogue,
  question: string,
  signal: AbortSignal,
): Promise<string | null> {
  errors.write(question);
  const line = await readLine(stdin, signal);
  return line === '' && (signal.aborted || stdin.readable === false) ? null : line;
}

/** Without its line break. A piped line may lack one. */
async function readLine(stdin: Input, signal?: AbortSignal): Promise<string> {
  let text = '';
  try {
    for await (const chunk of chunksOf(stdin, signal)) {
      text += chunk;
      if (text.includes('\n')) break;
      if (text.length > cliLimits.promptCharsMax)
        throw new UsageError('The line on standard input is too long.');
    }
  } finally {
    stdin.pause();
  }
  return (text.split('\n', 1)[0] ?? '').replace(/\r$/, '');
}

/** Raw: the terminal neither shows nor edits what is typed. */
async function readTyped(stdin: Input): Promise<string> {
  let typed = '';
  try {
    for await (const chunk of chunksOf(stdin)) {
      for (const char of chunk) {
        if (char === '\r' || char === '\n') return typed;
        if (char === '\u0003' || char === '\u0004') throw new CommandError('Nothing was changed.');
        if (char === '\u007f' || char === '\b') typed = typed.slice(0, -1);
        else if (char === '\u0015') typed = '';
        else typed += char;
      }
      if (typed.length > cliLimits.promptCharsMax)
        throw new UsageError('The line on standard input is too long.');
    }
  } finally {
    stdin.pause();
  }
  return typed;
}

/** As text, and without destroying the stream at the end: there may be a second question. */
async function* chunksOf(stdin: Input, signal?: AbortSignal): AsyncGenerator<string> {
  const queue: (Buffer | string | null)[] = [];
  let wake: () => void = () => undefined;
  const take = (chunk: Buffer | string | null) => {
    queue.push(chunk);
    wake();
  };
  const data = (chunk: Buffer | string) => take(chunk);
  const end = () => take(null);
  if (signal?.aborted === true) return;
  signal?.addEventListener('abort', end);
  stdin.on('data', data).on('end', end).on('close', end);
  // The question before has paused it.
  stdin.resume();
  try {
    for (;;) {
      const next = queue.shift();
      if (next === null) return;
      if (next !== undefined) yield next.toString();
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    signal?.removeEventListener('abort', end);
    stdin.off('data', data).off('end', end).off('close', end);
  }
}
