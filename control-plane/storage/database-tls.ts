import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { DatabaseAddress } from '../../shared/runtime/database-url.ts';
import { StartError } from '../../shared/runtime/start-error.ts';

/** What the driver takes as its option `ssl`. */
export type DriverTls = false | 'prefer' | 'require' | ConnectionOptions;

/**
 * `sslmode` as psql has it: `require` encrypts, and with `sslrootcert` also verifies the authority;
 * `verify-ca` verifies that alone, `verify-full` the name too. Throws StartError for a file that cannot be
 * used.
 */
export function driverTls(
  { socketFolder, sslMode, sslRootCert }: DatabaseAddress,
  setting: string,
): DriverTls {
  if (socketFolder !== null || sslMode === 'disable') return false;
  if (sslMode === 'prefer') return 'prefer';
  if (sslMode === 'require' && sslRootCert === null) return 'require';
  return {
    rejectUnauthorized: true,
    ...(sslRootCert === null ? {} : { ca: readRoots(sslRootCert, setting) }),
    ...(sslMode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  };
}

function readRoots(path: string, setting: string): string {
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new StartError(`The file that sslrootcert names in ${setting} cannot be read.`, { cause: error });
  }
  // Node.js takes a file without any for an empty list, and says later that it knows no issuer.
  if (!text.includes('-----BEGIN CERTIFICATE-----')) {
    throw new StartError(`The file that sslrootcert names in ${setting} holds no certificate as PEM.`);
  }
  return text;
}
