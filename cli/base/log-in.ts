import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { AuthenticationError, NotFoundError } from '../../clients/node/src/errors.ts';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import { exitCode } from '../../shared/runtime/exit-codes.ts';
import { readPlainFile } from '../../shared/runtime/plain-file.ts';
import { apiAccessOf, commandSettings, controlPlaneOf, serviceUrl } from './api-access.ts';
import { CommandError, UsageError } from './call-api.ts';
import type { CommandHost } from './host.ts';
import { cliLimits } from './limits.ts';
import { printerOf } from './print.ts';
import { checkProfileName, type Profiles, readProfiles, writeProfiles } from './profiles.ts';
import { readSecret } from './prompt.ts';
import { asCommandError } from './work.ts';

export interface LoginOptions {
  readonly url?: string;
  readonly profile: string;
  readonly keyFile?: string;
  readonly json?: boolean;
}

export async function login(host: CommandHost, options: LoginOptions): Promise<void> {
  const { env, output, errors } = host;
  const name = checkProfileName(options.profile);
  const url = serviceUrl(options.url ?? controlPlaneOf(env, commandSettings(env)));
  const before = await readProfiles(env);
  const key = await readKey(host, options.keyFile ?? null, url.origin);
  const form = parseApiKey(key);
  if (form === null) throw new UsageError('That is not an API key of this service: at_live_… or at_test_….');
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    errors.write(`Warning: ${url.origin} is not https: the key can be read on the way.\n`);
  const scopes = await scopesOf(url.origin, key);
  const file = await writeProfiles(env, {
    current: name,
    profiles: { ...before.profiles, [name]: { url: url.origin, api_key: key, scopes } },
  });
  const found = { profile: name, url: url.origin, mode: form.mode, scopes };
  printerOf({ output, errors, env, isJson: options.json === true }).item(found);
  errors.write(`Stored as "${name}" in ${file}, and used from now on.\n`);
  host.setExitCode(exitCode.success);
}

async function readKey(host: CommandHost, file: string | null, origin: string): Promise<string> {
  if (file !== null) {
    const bytes = await readPlainFile(file, cliLimits.promptCharsMax, ['link', 'pipe']).catch(
      (error: Error) => {
        throw new UsageError(`${file} cannot be read: ${error.message}`);
      },
    );
    return bytes.toString().trim();
  }
  const given = host.env['AGENT_TRUST_API_KEY'];
  return given || (await readSecret(host, `API key for ${origin} (it is not shown): `)).trim();
}

const isLoopback = (hostname: string): boolean =>
  hostname === 'localhost' || hostname === '[::1]' || /^127\./.test(hostname);

/**
 * The scopes of the key. Throws CommandError where the service does not know the key, or is none of ours.
 */
export async function scopesOf(origin: string, key: string): Promise<readonly Scope[]> {
  const client = new AgentTrust({ url: origin, apiKey: key });
  try {
    return (await client.apiKeys.whoAmI()).scopes;
  } catch (error) {
    if (error instanceof AuthenticationError)
      throw new CommandError(
        `${origin} does not know this key: it is of another service, or deleted, or expired.`,
      );
    if (error instanceof NotFoundError)
      throw new CommandError(
        `${origin} is no service of this version: log in with the command of its version.`,
      );
    throw asCommandError(error, origin);
  } finally {
    client.close();
  }
}

export async function logout(host: CommandHost, asked: string | null): Promise<void> {
  const { current, profiles } = await readProfiles(host.env);
  const name = asked ?? current;
  if (name === null || !Object.hasOwn(profiles, name))
    throw new UsageError(name === null ? 'No profile is in use.' : `There is no profile "${name}".`);
  const { [name]: _, ...others } = profiles;
  await writeProfiles(host.env, { current: current === name ? null : current, profiles: others });
  host.errors.write(`Forgot "${name}". Its key is still valid: delete it with agent-trust keys delete.\n`);
  host.setExitCode(exitCode.success);
}

export async function listProfiles(host: CommandHost, isJson: boolean): Promise<void> {
  const { env, output, errors } = host;
  const { current, profiles } = await readProfiles(env);
  const items = Object.entries(profiles).map(([name, { url, api_key, scopes }]) => ({
    profile: name,
    url,
    mode: parseApiKey(api_key)?.mode ?? null,
    scopes: scopes ?? null,
    is_current: name === current,
  }));
  printerOf({ output, errors, env, isJson }).rows(
    {
      profile: 'profile',
      url: 'url',
      mode: 'mode',
      scopes: ({ scopes }) => scopes?.join(' '),
      current: ({ is_current }) => (is_current ? 'yes' : null),
    },
    items,
  );
  host.setExitCode(exitCode.success);
}

export async function useProfile(host: CommandHost, name: string): Promise<void> {
  const stored: Profiles = await readProfiles(host.env);
  await apiAccessOf(host.env, { profile: name });
  await writeProfiles(host.env, { ...stored, current: name });
  host.errors.write(`"${name}" is used from now on.\n`);
  host.setExitCode(exitCode.success);
}
