import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import {
  type Environment,
  originOf,
  parseSettings,
  type SettingValues,
} from '../../shared/runtime/settings.ts';
import { parseWebUrl } from '../../shared/wire/domain.ts';
import { type ApiAccess, UsageError } from './call-api.ts';

/**
 * The settings that a command shares with the service: its address, its data folder, its first key. Throws
 * SettingsError.
 */
export const commandSettings = (environment: Environment): SettingValues =>
  parseSettings(['command'], environment);

/** CONTROL_PLANE_URL, else where HOST and PORT put the control plane on this machine. */
const controlPlaneOf = (settings: SettingValues): string =>
  settings.CONTROL_PLANE_URL ?? originOf({ host: settings.HOST, port: settings.PORT });

/** For `--help`. */
export const apiKeyHelp = `
The API key is read from AGENT_TRUST_API_KEY, else from ADMIN_API_KEY, else from the file that the first start wrote,
DATA_DIR/admin-api-key. It is never an argument, because other users of this machine could read it.
`;

/**
 * How a command reaches the service; `origin` overrides the settings. Throws UsageError without a key, and
 * for an invalid origin.
 */
export async function apiAccessOf(
  environment: Environment,
  options: { readonly origin: string | null; readonly keyFile: string | null },
): Promise<ApiAccess> {
  const settings = commandSettings(environment);
  const origin = options.origin ?? controlPlaneOf(settings);
  const url = parseWebUrl(origin);
  if (url === null) {
    throw new UsageError(
      `The control plane must be an address such as https://trust.example.com, not "${origin}".`,
    );
  }
  const file = options.keyFile ?? join(settings.DATA_DIR, 'admin-api-key');
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

async function readKey(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch {
    // The remedy is the same for every fault of the file.
    throw new UsageError(
      `There is no API key: set AGENT_TRUST_API_KEY, or start the service first; ${file} cannot be read.`,
    );
  }
}
