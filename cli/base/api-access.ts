import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import {
  type Environment,
  originOf,
  parseSettings,
  type SettingValues,
} from '../../shared/runtime/settings.ts';
import { parseWebUrl } from '../../shared/wire/api/domain.ts';
import { type ApiAccess, UsageError } from './call-api.ts';
import { checkProfileName, readProfiles } from './profiles.ts';

/**
 * The settings that a command shares with the service: its address, its data folder, its first key. Throws
 * SettingsError.
 */
export const commandSettings = (environment: Environment): SettingValues =>
  parseSettings(['command'], environment);

/** AGENT_TRUST_URL, else CONTROL_PLANE_URL, else where HOST and PORT put it on this machine. */
export const controlPlaneOf = (environment: Environment, settings: SettingValues): string =>
  environment['AGENT_TRUST_URL'] ||
  (settings.CONTROL_PLANE_URL ?? originOf({ host: settings.HOST, port: settings.PORT }));

/** For `--help`. */
export const apiKeyHelp = `
Service and key, from the first of these that is there:
  --profile NAME, or AGENT_TRUST_PROFILE: what \`agent-trust login\` stored under that name
  AGENT_TRUST_URL and AGENT_TRUST_API_KEY, or the settings CONTROL_PLANE_URL, ADMIN_API_KEY and DATA_DIR
  the profile that \`agent-trust login\` stored last
  this machine: HOST and PORT, and the key that the first start wrote into DATA_DIR/admin-api-key
A key is never an argument, because other users of this machine could read it.
`;

/**
 * How a command reaches the service; `origin` overrides the settings. Throws UsageError without a key, for an
 * invalid origin and for a profile that does not exist.
 */
export async function apiAccessOf(
  environment: Environment,
  options: {
    /**
     * Null: AGENT_TRUST_PROFILE, else the current one where the environment names no service. Absent: none.
     */
    readonly profile?: string | null;
    readonly origin?: string | null;
    readonly keyFile?: string | null;
  },
): Promise<ApiAccess> {
  const { profile, origin = null, keyFile = null } = options;
  const settings = commandSettings(environment);
  const isStored = profile !== undefined && origin === null;
  const stored = isStored ? await storedAccess(environment, profile) : null;
  if (stored !== null) return stored;
  const url = serviceUrl(origin ?? controlPlaneOf(environment, settings));
  const file = keyFile ?? join(settings.DATA_DIR, 'admin-api-key');
  const given = environment['AGENT_TRUST_API_KEY'] || settings.ADMIN_API_KEY;
  const key = given ?? (await readKey(file));
  if (parseApiKey(key) === null) {
    throw new UsageError(
      given === null
        ? `${file} contains no API key of this service.`
        : 'AGENT_TRUST_API_KEY is not an API key of this service.',
    );
  }
  return { origin: url.origin, key };
}

/** Throws UsageError for what is no address of a control plane. */
export function serviceUrl(text: string): URL {
  const url = parseWebUrl(text);
  if (url !== null) return url;
  throw new UsageError(
    `The control plane must be an address such as https://trust.example.com, not "${text}".`,
  );
}

/** What names a service or a key in the environment: it is closer than the profile of the last login. */
const namedByEnvironment = [
  'AGENT_TRUST_URL',
  'AGENT_TRUST_API_KEY',
  ...['CONTROL_PLANE_URL', 'ADMIN_API_KEY', 'ADMIN_API_KEY_FILE', 'DATA_DIR'].flatMap((name) => [
    name,
    `AGENT_TRUST_${name}`,
  ]),
];

/**
 * Address and key of a profile: the two always come together, so that no key goes to the service of another.
 * Null: no profile is to be used.
 */
async function storedAccess(environment: Environment, asked: string | null): Promise<ApiAccess | null> {
  const named = asked ?? (environment['AGENT_TRUST_PROFILE'] || null);
  if (named === null && namedByEnvironment.some((name) => environment[name])) return null;
  if (named !== null) checkProfileName(named);
  const { current, profiles } = await readProfiles(environment);
  const name = named ?? current;
  if (name === null) return null;
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile === undefined) {
    throw new UsageError(`There is no profile "${name}". Make it with: agent-trust login --profile ${name}`);
  }
  if (parseApiKey(profile.api_key) === null)
    throw new UsageError(`The profile "${name}" holds no API key of this service. Log in again.`);
  return { origin: serviceUrl(profile.url).origin, key: profile.api_key };
}

async function readKey(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch {
    // The remedy is the same for every fault of the file.
    throw new UsageError(
      `There is no API key: log in with agent-trust login, set AGENT_TRUST_API_KEY, or start the service first; ${file} cannot be read.`,
    );
  }
}
