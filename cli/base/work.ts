import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { AgentTrustError } from '../../clients/node/src/errors.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { apiAccessOf } from './api-access.ts';
import { CommandError, reasonOf } from './call-api.ts';
import { keepSecret, readBody } from './files.ts';
import type { ApiOptions, CommandHost, Work } from './host.ts';
import { isNoRoom } from './no-room.ts';
import { printerOf } from './print.ts';

export async function workWithApi(
  host: CommandHost,
  options: ApiOptions,
  work: (work: Work) => Promise<ExitCode | undefined>,
): Promise<ExitCode> {
  const access = await apiAccessOf(host.env, { profile: options.profile ?? null });
  const { env, output, errors, stdin } = host;
  const print = printerOf({ output, errors, env, isJson: options.json === true });
  const client = new AgentTrust({ url: access.origin, apiKey: access.key });
  try {
    const readBodyIn = async (path?: string) => (path === undefined ? {} : readBody(path, stdin));
    const done = work({
      ...{ client, access, print, dialogue: { stdin, errors }, host },
      ...{ readBody: readBodyIn, keepSecret },
    });
    const code = await Promise.race([written(done, output), outputGone(output)]);
    return code ?? exitCode.success;
  } catch (error) {
    throw asCommandError(error, access.origin);
  } finally {
    client.close();
  }
}

/**
 * Resolves when nobody reads standard output any more, as behind `| head`. Throws CommandError where its disk
 * is full: what is there is not whole.
 */
const outputGone = (output: CommandHost['output']): Promise<undefined> =>
  new Promise((resolve, reject) => {
    output.once('error', (error: unknown) => {
      if (isNoRoom(error)) reject(notWritten(error));
      else resolve(undefined);
    });
  });

/** What was done, once standard output has taken or refused all of it. Throws as `outputGone`. */
async function written<Done>(done: Promise<Done>, output: CommandHost['output']): Promise<Done> {
  const result = await done;
  await new Promise<void>((resolve, reject) => {
    output.write('', (error) => {
      // A stream that failed before says only that it is closed.
      const cause = 'errored' in output && output.errored !== null ? output.errored : error;
      if (isNoRoom(cause)) reject(notWritten(cause));
      else resolve();
    });
  });
  return result;
}

const notWritten = (error: unknown): CommandError =>
  new CommandError(`Standard output cannot be written: ${reasonOf(error)}.`);

/** A refusal of the service, or no answer of it, as its user reads it. Any other error stays. */
export function asCommandError(error: unknown, origin: string): unknown {
  if (!(error instanceof AgentTrustError)) return error;
  const { code, message, http_status, param, request_id, retry_after_ms } = error;
  if (http_status === null) return new CommandError(`${origin} cannot be reached: ${message}`);
  if (code === 'bad_answer') return new CommandError(`${message}. Is ${origin} the control plane?`);
  const field = param === null || message.includes(param) ? '' : ` (${param})`;
  const named = request_id === null ? '' : ` [${request_id}]`;
  const retryS = retry_after_ms === null ? null : Math.ceil(retry_after_ms / 1_000);
  const later = retryS === null ? '' : ` Try again in ${retryS} s.`;
  return new CommandError(`${code}: ${message}${field}${later}${named}`, retryS);
}
