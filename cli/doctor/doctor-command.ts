import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { visible } from '../../shared/model/plain-text.ts';
import { type ExitCode, exitCode } from '../../shared/runtime/exit-codes.ts';
import {
  type Environment,
  ignoredSettings,
  originOf,
  parseSettings,
  parseSidecarSettings,
  SettingsError,
  type SettingValues,
} from '../../shared/runtime/settings.ts';
import { apiAccessOf, controlPlaneOf } from '../base/api-access.ts';
import { type ApiAccess, CommandError } from '../base/call-api.ts';
import type { CommandHost } from '../base/host.ts';
import { jsonLine, paintFor } from '../base/print.ts';
import { checkApprovers } from './doctor-approvers.ts';
import { checkBalance } from './doctor-balance.ts';
import { type Finding, fail, ok, warn } from './doctor-finding.ts';
import { checkBackup, checkDatabase, checkRedis } from './doctor-machine.ts';
import type { DoctorOptions } from './doctor-options.ts';
import { checkKey, checkRecords, checkService } from './doctor-service.ts';
import { checkSidecars } from './doctor-sidecars.ts';
import { checkWallets } from './doctor-wallets.ts';

/**
 * `agent-trust doctor`: settings, service, key, clocks, database, Redis, history, records, balance, wallets,
 * sidecars with their spools, and the last backup. Reads only. 0: nothing fails. 1: something does.
 */
export async function doctor(host: CommandHost, options: DoctorOptions): Promise<ExitCode> {
  const { settings, findings: ofSettings } = checkSettings(host.env);
  const findings = show(host, options, ofSettings);
  const add = (more: readonly Finding[]) => findings.push(...show(host, options, more));
  const access = await accessOf(host, options, settings);
  const client = new AgentTrust({ url: access.origin, apiKey: access.key ?? 'none', retriesMax: 0 });
  try {
    const { readiness, findings: ofService } = await checkService(client, access.origin);
    add(ofService);
    if (access.problem !== null) add([access.problem]);
    else if (readiness !== null) add([await checkKey(access.origin, access.key ?? '')]);
    if (settings?.DATABASE_URL) add([await checkDatabase(settings.DATABASE_URL, host.askDatabase)]);
    if (settings?.REDIS_URL) add([await checkRedis(settings.REDIS_URL)]);
    if (readiness !== null && access.problem === null) {
      const { origin, key } = access;
      add([await checkRecords(client), await checkBalance({ origin, key: key ?? '' })]);
      add([await checkWallets(client), await checkApprovers(client)]);
    }
  } finally {
    client.close();
  }
  add(await checkSidecars(sidecarsOf(options, settings), options.sidecar !== undefined));
  add([await checkBackup(options.backupStamp ?? null, options.backupMaxAge)]);
  const failed = findings.some(({ state }) => state === 'fail');
  return failed ? exitCode.failure : exitCode.success;
}

/** The settings of the programs that this environment starts. Null: they cannot be read. */
function checkSettings(env: Environment): {
  readonly settings: SettingValues | null;
  readonly findings: readonly Finding[];
} {
  const isGiven = (name: string) =>
    [name, `${name}_FILE`, `AGENT_TRUST_${name}`, `AGENT_TRUST_${name}_FILE`].some((each) => env[each]);
  const read = [
    () => parseSettings(isGiven('DATABASE_URL') ? ['control-plane', 'command'] : ['command'], env),
    ...(isGiven('SIDECAR_API_KEY') ? [() => parseSidecarSettings(env)] : []),
  ];
  const problems: string[] = [];
  let settings: SettingValues | null = null;
  for (const one of read) {
    try {
      const values = one();
      settings ??= values;
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      problems.push(...error.problems.filter((problem) => !problems.includes(problem)));
    }
  }
  if (problems.length > 0)
    return {
      settings: null,
      findings: problems.map((each) => fail('settings', each, 'Correct it; see agent-trust --help.')),
    };
  const ignored = ignoredSettings(env).map((name) =>
    warn('settings', `${name} holds the address of a Service and is ignored`, `Set AGENT_TRUST_${name}.`),
  );
  return { settings, findings: ignored.length > 0 ? ignored : [ok('settings', 'all can be read')] };
}

interface Access extends Omit<ApiAccess, 'key'> {
  readonly key: string | null;
  /** Null: there is a key. */
  readonly problem: Finding | null;
}

async function accessOf(
  { env }: CommandHost,
  { profile }: DoctorOptions,
  settings: SettingValues | null,
): Promise<Access> {
  try {
    return { ...(await apiAccessOf(env, { profile: profile ?? null })), problem: null };
  } catch (error) {
    if (!(error instanceof CommandError) && !(error instanceof SettingsError)) throw error;
    const origin =
      settings === null ? originOf({ host: '127.0.0.1', port: 8080 }) : controlPlaneOf(env, settings);
    const problem = fail('key', error.message.replaceAll('\n', ' '), 'Log in: agent-trust login.');
    return { origin, key: null, problem };
  }
}

const sidecarsOf = ({ sidecar }: DoctorOptions, settings: SettingValues | null): readonly string[] =>
  sidecar ??
  (settings === null || settings.SIDECAR_PORT === 0
    ? []
    : [originOf({ host: settings.SIDECAR_HOST, port: settings.SIDECAR_PORT })]);

const styles = { ok: 'green', warn: 'yellow', fail: 'red', unknown: 'dim' } as const;

/** A line for each, as soon as it is known. */
function show(
  { output, env }: CommandHost,
  { json }: DoctorOptions,
  findings: readonly Finding[],
): Finding[] {
  const paint = paintFor(output, env);
  for (const finding of findings) {
    const { check, state, message, next } = finding;
    const todo = next === null ? '' : ` -> ${next}`;
    if (json === true) output.write(jsonLine(finding));
    else
      output.write(
        `${paint(styles[state], state.padEnd(7))}  ${visible(`${check.padEnd(9)}  ${message}${todo}`)}\n`,
      );
  }
  return [...findings];
}
