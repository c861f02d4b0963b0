import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { refusedCode, type Shown, withMeta, withoutPassport } from './guard-calls.ts';
import type { CallReports } from './held-calls.ts';
import { proxyLimits } from './limits.ts';
import type { AnswerContext, AnswerGuard } from './look-at-answers.ts';
import { OpenRequests } from './open-requests.ts';
import { invalidRequest, isToolList, readMessages, refusalText } from './read-messages.ts';
import type { RequestGuard } from './request-guard.ts';
import { splitLines } from './split-lines.ts';
import type { ToolViews } from './tool-views.ts';
import { idAtAnEnd, type WrittenIds } from './written-ids.ts';

export interface StdioProxyOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Of the client: messages in, messages out and nothing else. */
  readonly input: Readable;
  readonly output: Writable;
  readonly passport: () => string | undefined;
  readonly requests: RequestGuard;
  readonly answers: AnswerGuard;
  readonly reports: CallReports;
  /** The lists of tools of the client. */
  readonly views: ToolViews;
  /** Of one message of the server, in bytes. */
  readonly answerBytesMax: number;
  readonly forwardsPassport: boolean;
  /** Ends the server and the proxy. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/**
 * Runs an MCP server that speaks over its standard input and output, between it and the client.
 * Messages keep their order: what follows a call waits for its decision. Resolves when the server has ended,
 * with true where it ended by itself with 0, or because the client or the signal ended it. Its whole process
 * group is ended with it. Throws StartError where the server cannot be started.
 */
export async function runStdioProxy(options: StdioProxyOptions): Promise<boolean> {
  const child = spawn(options.command, options.args, {
    // What it leaves on standard error is for people, and goes where ours goes.
    stdio: ['pipe', 'pipe', 'inherit'],
    env: options.env,
    // A process group of its own, which can be ended as a whole.
    detached: true,
  });
  await once(child, 'spawn').catch((cause: Error) => {
    throw new StartError(`the MCP server cannot be started: ${cause.message}`, { cause });
  });
  const { stdin, stdout } = child as ChildProcess & { stdin: Writable; stdout: Readable };
  const exited = once(child, 'exit') as Promise<[code: number | null]>;
  let isWanted = false;
  const stopOnce = () => {
    if (isWanted) return;
    isWanted = true;
    void stop(child, stdin, exited);
  };
  if (options.signal.aborted) stopOnce();
  options.signal.addEventListener('abort', stopOnce, { once: true });
  // Written to what has ended: the exit that follows says so.
  stdin.on('error', (error) => options.logger.debug({ err: error }, 'the MCP server reads no more'));
  options.output.on('error', stopOnce);

  const endFor = (error: unknown) => {
    options.logger.error({ err: error }, 'the proxy ends, because messages cannot be passed on any more');
    stopOnce();
  };
  const toClient = new Writer(options.output, endFor);
  const open = new OpenRequests(options.reports);
  const ends = { toServer: new Writer(stdin, endFor), toClient, open };
  void fromClient(options, ends).catch(endFor).finally(stopOnce);
  const answers = fromServer(options, stdout, ends).catch(endFor);
  const [code] = await exited;
  killGroup(child, 'SIGKILL');
  // Bounded: a process that has left the group may still hold the pipe.
  await isWithin(
    answers.then(() => toClient.written()),
    proxyLimits.childStopMsMax,
  );
  open.endAll(isWanted ? 'left' : 'failed');
  options.signal.removeEventListener('abort', stopOnce);
  options.input.destroy();
  if (!isWanted) options.logger.warn({ code }, 'the MCP server has ended by itself');
  return isWanted || code === 0;
}

/** As the specification has it: the end of its input, then SIGTERM, then SIGKILL. */
async function stop(child: ChildProcess, stdin: Writable, exited: Promise<unknown>): Promise<void> {
  stdin.end();
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    if (await isWithin(exited, proxyLimits.childStopMsMax)) return;
    killGroup(child, signal);
  }
}

async function isWithin(settled: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const isSettled = await Promise.race([settled.then(() => true), late]);
  clearTimeout(timer);
  return isSettled;
}

function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has no process left.
  }
}

/** Lines in the order in which they were handed in, although some of them take a while to be known. */
class Writer {
  readonly #target: Writable;
  readonly #onFault: (error: unknown) => void;
  #last: Promise<void> = Promise.resolve();
  #unwritten = 0;

  constructor(target: Writable, onFault: (error: unknown) => void) {
    this.#target = target;
    this.#onFault = onFault;
  }

  /** `line`: null writes nothing. Resolves when there is room for more. */
  async write(line: Promise<Buffer | null> | Buffer): Promise<void> {
    this.#unwritten += 1;
    this.#last = this.#last
      .then(async () => {
        const bytes = await line;
        const { destroyed, writableEnded } = this.#target;
        if (bytes !== null && !destroyed && !writableEnded && !this.#target.write(bytes))
          await this.#drained();
      })
      .catch(this.#onFault)
      .finally(() => {
        this.#unwritten -= 1;
      });
    if (this.#unwritten > proxyLimits.unwrittenMessagesMax) await this.#last;
  }

  written(): Promise<void> {
    return this.#last;
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#target.off('drain', done).off('close', done);
        resolve();
      };
      this.#target.on('drain', done).on('close', done);
    });
  }
}

interface Ends {
  readonly toServer: Writer;
  readonly toClient: Writer;
  readonly open: OpenRequests;
}

async function fromClient(options: StdioProxyOptions, ends: Ends): Promise<void> {
  const { toServer, toClient } = ends;
  const lines = splitLines(options.input, proxyLimits.messageBytesMax);
  for await (const line of lines) {
    if (!Buffer.isBuffer(line)) {
      const message = `A message has at most ${proxyLimits.messageBytesMax} bytes.`;
      const written = idAtAnEnd(line.head, line.tail);
      await refuse(options, toClient, { code: invalidRequest, message, written });
    } else if (!isBlank(line)) {
      await toServer.write(passed(options, line, ends));
    }
  }
  await toServer.written();
}

/** A notification, and an answer to the server, get no error. */
async function refuse(
  { logger }: StdioProxyOptions,
  toClient: Writer,
  refused: { readonly code: number; readonly message: string; readonly written: WrittenIds },
): Promise<void> {
  const text = refusalText(refused);
  if (text === null) logger.warn({ why: refused.message }, 'a message of the client is left out');
  else await toClient.write(Buffer.from(`${text}\n`));
}

/** The one client of this proxy. */
const view = 'stdio';

const isBlank = (line: Buffer): boolean => line.toString('latin1').trim() === '';
const render = (message: unknown): Buffer => Buffer.from(`${JSON.stringify(message)}\n`);

/** The part of a line for the server; the client gets answers to the rest. */
async function passed(
  options: StdioProxyOptions,
  line: Buffer,
  { toClient, open }: Ends,
): Promise<Buffer | null> {
  const read = readMessages(line);
  if (read.kind === 'unreadable') {
    await refuse(options, toClient, read);
    return null;
  }
  const shown = shownOf(options);
  const token = shown('x-agent-passport') ?? '';
  const kept: JsonObject[] = [];
  const own: JsonObject[] = [];
  const sender = { shown, view, open };
  const admitted = await Promise.all(read.messages.map((message) => options.requests.admit(message, sender)));
  for (const { message, refused } of admitted) {
    if (refused !== null) {
      own.push(refused.message);
      continue;
    }
    const { params } = message;
    if (isToolList(message)) options.views.ask(view, isJsonObject(params) ? params['cursor'] : undefined);
    kept.push(options.forwardsPassport ? message : withoutPassport(message, token));
  }
  // The server answers the rest of a batch in a batch of its own.
  if (own.length > 0) await toClient.write(render(read.isBatch ? own : own[0]));
  if (kept.length === 0) return null;
  const isWhole =
    kept.length === read.messages.length && kept.every((each, at) => each === read.messages[at]);
  // For readers that end a line at a bare CR as well, a part of it could be a message of its own.
  const isOneLine = line.indexOf('\r') === -1 || line.indexOf('\r') === line.length - 1;
  const isSame = isWhole && isOneLine;
  return isSame ? Buffer.concat([line, newline]) : render(read.isBatch ? kept : kept[0]);
}

const newline = Buffer.from('\n');

const shownOf =
  ({ passport }: StdioProxyOptions): Shown =>
  (name) =>
    name === 'x-agent-passport' ? passport() : undefined;

async function fromServer(options: StdioProxyOptions, stdout: Readable, ends: Ends): Promise<void> {
  const { toClient, toServer, open } = ends;
  const context: AnswerContext = { shown: withMeta(null, shownOf(options)), view, open };
  for await (const line of splitLines(stdout, options.answerBytesMax)) {
    if (!Buffer.isBuffer(line)) {
      options.logger.warn({}, 'a message of the MCP server is too large, and is cut off');
      const message = `The answer of the MCP server has more than ${options.answerBytesMax} bytes.`;
      const written = idAtAnEnd(line.head, line.tail);
      for (const id of written.ids) open.take(JSON.parse(id));
      if (written.ids.length > 0) await refuse(options, toClient, { code: refusedCode, message, written });
      continue;
    }
    if (isBlank(line)) continue;
    const looked = await lookAt(options, line, context);
    if (looked === null) continue;
    // Not to be waited for: a server that reads nothing must not stop its own answers.
    for (const message of looked.toServer) void toServer.write(render(message));
    if (looked.toClient !== null) await toClient.write(Buffer.from(`${looked.toClient}\n`));
    // Many large ones would wait in memory for a client that reads slowly.
    if (line.length > proxyLimits.discardedBytesMax) await toClient.written();
  }
}

/** Null: it is no message. */
async function lookAt(options: StdioProxyOptions, line: Buffer, context: AnswerContext) {
  const text = line.toString('utf8');
  try {
    const looked = await options.answers.look(text, context);
    const { toClient } = looked;
    // For readers that end a line at a bare CR as well, a part of it could be a message of its own.
    const isOneLine = toClient === null || !toClient.trimEnd().includes('\r');
    return isOneLine ? looked : { ...looked, toClient: JSON.stringify(JSON.parse(toClient)) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    options.logger.warn({ err: error }, 'a line of the MCP server is not JSON, and is left out');
    return null;
  }
}
