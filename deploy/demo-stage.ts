import { CommandError } from '../cli/base/call-api.ts';

/** What went wrong, in words for the person at the terminal. */
export class DemoError extends CommandError {}

/** The running service that a demonstration calls. */
export interface Stage {
  readonly url: string;
  readonly sidecarUrl: string;
  readonly adminKey: string;
}

export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Agent {
  readonly name: string;
  readonly passportId: string;
  readonly token: string;
}

export async function checkThatItRuns(stage: Stage): Promise<void> {
  for (const [what, url, option] of [
    ['control plane', stage.url, 'url'],
    ['sidecar', stage.sidecarUrl, 'sidecar'],
  ] as const) {
    const response = await fetch(`${url}/readyz`).catch(() => null);
    if (response === null || !response.ok) {
      throw new DemoError(
        `The ${what} is not ready at ${url}. Start the service with "npm start", or name its address with --${option} or in the service's settings.`,
      );
    }
    print(`The ${what} is ready at ${url}.`);
  }
}

export async function issuePassport(stage: Stage, name: string, permissions: string[]): Promise<Agent> {
  const answer = await api(stage, 'POST', '/passports', {
    // A fresh agent_id each time, so that the story can be played again.
    agent_id: `${name}-${Date.now().toString(36)}`,
    agent_name: name,
    permissions,
    expires_in_days: 1,
  });
  print(`${name} has passport ${answer.body['passport_id']} with ${permissions.join(', ')}.`);
  return { name, passportId: String(answer.body['passport_id']), token: String(answer.body['jwt']) };
}

/** Calls the control plane as an administrator. Throws DemoError where the answer is an error. */
export async function api(stage: Stage, method: string, path: string, body?: object): Promise<Answer> {
  const answer = await call(`${stage.url}/v1${path}`, method, stage.adminKey, body);
  const { status, body: said } = answer;
  if (status >= 400)
    throw new DemoError(`${method} ${path} answered ${status}: ${JSON.stringify(said['error'])}`);
  return answer;
}

/** Far longer than any answer takes, so that a service that has stopped answering ends the wait. */
const callMsMax = 10_000;

export async function call(
  url: string,
  method: string,
  key: string | null,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...headers,
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    signal: AbortSignal.timeout(callMsMax),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

export function title(text: string): void {
  process.stdout.write(`\n${text}\n`);
}

export function print(text: string): void {
  process.stdout.write(`   ${text}\n`);
}
