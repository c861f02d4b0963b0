import { readFile } from 'node:fs/promises';
import { AgentTrust } from '../../clients/node/src/agent-trust.ts';
import { AuthenticationError, ForbiddenError } from '../../clients/node/src/errors.ts';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import { exitCode } from '../../shared/runtime/exit-codes.ts';
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
  const { scopes, isWhole } = await scopesOf(url.origin, key);
  const file = await writeProfiles(env, {
    current: name,
    profiles: { ...before.profiles, [name]: { url: url.origin, api_key: key } },
  });
  const found = { profile: name, url: url.origin, mode: form.mode, scopes, scopes_are_all: isWhole };
  printerOf({ output, errors, env, isJson: options.json === true }).item(found);
  errors.write(`Stored as "${name}" in ${file}, and used from now on.\n`);
  if (!isWhole)
    errors.write(
      'The key may not look at keys (keys:manage), so only what it may read is known of its scopes.\n',
    );
  host.setExitCode(exitCode.success);
}

async function readKey(host: CommandHost, file: string | null, origin: string): Promise<string> {
  if (file !== null) {
    const text = await readFile(file, 'utf8').catch((error: Error) => {
      throw new UsageError(`${file} cannot be read: ${error.message}`);
    });
    return text.trim();
  }
  const given = host.env['AGENT_TRUST_API_KEY'];
  return given || (await readSecret(host, `API key for ${origin} (it is not shown): `)).trim();
}

const isLoopback = (hostname: string): boolean =>
  hostname === 'localhost' || hostname === '[::1]' || /^127\./.test(hostname);

export interface OwnScopes {
  readonly scopes: readonly string[];
  /** False: there may be others. */
  readonly isWhole: boolean;
}

/**
 * The scopes of the key, as the list of keys shows them; where it may not see that list, what it may read.
 * Throws CommandError where the service does not know the key, or is none of ours.
 */
export async function scopesOf(origin: string, key: string): Promise<OwnScopes> {
  const client = new AgentTrust({ url: origin, apiKey: key });
  try {
    const own = await ownKey(client, key);
    return own === null
      ? { scopes: await readableBy(client), isWhole: false }
      : { scopes: own, isWhole: true };
  } catch (error) {
    if (error instanceof AuthenticationError)
      throw new CommandError(
        `${origin} does not know this key: it is of another service, or deleted, or expired.`,
      );
    throw asCommandError(error, origin);
  } finally {
    client.close();
  }
}

/** Null: it may not list keys, or is not told from another one by its ends. */
async function ownKey(client: AgentTrust, key: string): Promise<readonly string[] | null> {
  const found = [];
  let seen = 0;
  try {
    for await (const each of client.apiKeys.list({ limit: limits.pageItemsMax })) {
      if (key.startsWith(each.prefix) && key.endsWith(each.last4)) found.push(each);
      if (++seen >= cliLimits.ownKeyLookedAtMax) return null;
    }
  } catch (error) {
    if (error instanceof ForbiddenError && error.code === 'insufficient_scope') return null;
    throw error;
  }
  return found.length === 1 ? (found[0]?.scopes ?? null) : null;
}

async function readableBy(client: AgentTrust): Promise<readonly string[]> {
  const one = { limit: 1 } as const;
  const asked: readonly (readonly [Scope, () => PromiseLike<unknown>])[] = [
    ['passports:read', () => client.passports.list(one)],
    ['gates:read', () => client.gates.list(one)],
    ['issuers:read', () => client.issuers.list(one)],
    ['templates:read', () => client.templates.list(one)],
    ['approvals:read', () => client.approvals.list(one)],
    ['attestations:read', () => client.attestations.list(one)],
    ['audit:read', () => client.audit.list(one)],
    ['webhooks:manage', () => client.webhooks.list(one)],
  ];
  const held: Scope[] = [];
  for (const [scope, ask] of asked) {
    try {
      await ask();
      held.push(scope);
    } catch (error) {
      if (!(error instanceof ForbiddenError) || error.code !== 'insufficient_scope') throw error;
    }
  }
  return held;
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
  const items = Object.entries(profiles).map(([name, { url, api_key }]) => ({
    profile: name,
    url,
    mode: parseApiKey(api_key)?.mode ?? null,
    is_current: name === current,
  }));
  printerOf({ output, errors, env, isJson }).rows(
    [
      { title: 'profile', of: ({ profile }) => profile },
      { title: 'url', of: ({ url }) => url },
      { title: 'mode', of: ({ mode }) => mode },
      { title: 'current', of: ({ is_current }) => (is_current ? 'yes' : null) },
    ],
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
