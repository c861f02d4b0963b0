import { limits } from '../../shared/model/limits.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import { originOf, type SettingValues } from '../../shared/runtime/settings.ts';
import { reasonOf, UsageError } from '../base/call-api.ts';
import type { TextSink } from '../base/text-sink.ts';

export const checkedPrograms = ['control-plane', 'sidecar'] as const;
export type CheckedProgram = (typeof checkedPrograms)[number];

type Health =
  | { readonly kind: 'ready' }
  /** Connection refused. */
  | { readonly kind: 'absent'; readonly reason: string }
  | { readonly kind: 'not_ready'; readonly reason: string };

/**
 * `agent-trust healthcheck`: whether the program at the settings' address is ready for requests. Without a
 * name it asks both, and ignores one that does not listen, as in a container that runs only the other; at
 * least one must listen. Answers within limits.healthcheckMsMax. 0: ready. 1: not. Throws UsageError for port
 * 0, which names no address.
 */
export async function healthcheckCommand(options: {
  readonly program: CheckedProgram | null;
  readonly settings: SettingValues;
  readonly output: TextSink;
}): Promise<ExitCode> {
  const { program, settings, output } = options;
  const asked = program === null ? checkedPrograms : [program];
  const found = await Promise.all(
    asked.map(async (name) => ({ name, health: await healthAt(listenerOf(name, settings)) })),
  );
  const present = program === null ? found.filter(({ health }) => health.kind !== 'absent') : found;
  for (const { name, health } of present.length === 0 ? found : present) {
    output.write(`${name}: ${health.kind === 'ready' ? 'ready' : health.reason}\n`);
  }
  const isHealthy = present.length > 0 && present.every(({ health }) => health.kind === 'ready');
  return isHealthy ? exitCode.success : exitCode.failure;
}

function listenerOf(program: CheckedProgram, settings: SettingValues): string {
  const [name, host, port] =
    program === 'control-plane'
      ? (['PORT', settings.HOST, settings.PORT] as const)
      : (['SIDECAR_PORT', settings.SIDECAR_HOST, settings.SIDECAR_PORT] as const);
  if (port === 0)
    throw new UsageError(`${name} is 0: a port that was chosen at start cannot be found again.`);
  return originOf({ host, port });
}

/** More than `/readyz` answers; another program at that port must not fill a log. */
const bodyCharsMax = 2_000;

async function healthAt(origin: string): Promise<Health> {
  try {
    const response = await fetch(`${origin}/readyz`, {
      redirect: 'error',
      signal: AbortSignal.timeout(limits.healthcheckMsMax),
    });
    if (response.ok) return { kind: 'ready' };
    const body = (await response.text()).slice(0, bodyCharsMax);
    return { kind: 'not_ready', reason: `not ready, ${response.status}: ${body}` };
  } catch (error) {
    const reason = reasonOf(error);
    return {
      kind: reason === 'ECONNREFUSED' ? 'absent' : 'not_ready',
      reason: `${origin} does not answer: ${reason}`,
    };
  }
}
