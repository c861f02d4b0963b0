import { isIPv6 } from 'node:net';
import type { DatabaseAddress } from '../../shared/runtime/database-url.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { Database } from '../base/database.ts';
import { isTlsFailure } from './database-away.ts';

/** Hosts and ports, or the folder of the socket. */
export function placeOf({ socketFolder, hosts }: DatabaseAddress): string {
  return (
    socketFolder ?? hosts.map(({ host, port }) => `${isIPv6(host) ? `[${host}]` : host}:${port}`).join(',')
  );
}

/** As a name stands in SQL. */
const quoted = (name: string | null, otherwise: string): string =>
  name === null ? otherwise : /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;

/** What to do about a refusal of PostgreSQL, by its SQLSTATE: messages come in the language of the server. */
function stepFor(code: string, { user, database }: DatabaseAddress): string | null {
  const role = quoted(user, 'the role of DATABASE_URL');
  const base = quoted(database, 'the database');
  const steps: Readonly<Record<string, string>> = {
    '28P01': 'Correct user and password in DATABASE_URL.',
    '28000': `Correct the user in DATABASE_URL, or let it in: CREATE ROLE ${role} LOGIN; a line in pg_hba.conf; sslmode in DATABASE_URL where pg_hba.conf wants TLS.`,
    '3D000': `Correct DATABASE_URL, or run: CREATE DATABASE ${base} OWNER ${role};`,
    '42501': `Run as an owner: GRANT CONNECT ON DATABASE ${base} TO ${role}; GRANT CREATE ON SCHEMA public TO ${role}; and where tables exist, make ${role} their owner.`,
    '3F000': `No schema of the search_path exists. Run: CREATE SCHEMA public AUTHORIZATION ${role};`,
    '25006': `It takes no writes. Name the primary in DATABASE_URL, or run: ALTER ROLE ${role} IN DATABASE ${base} SET default_transaction_read_only = off;`,
  };
  return steps[code] ?? null;
}

/** A failure that lasts until the operator acts, as a sentence with the remedy; null: another failure. */
export function startRefusal(error: unknown, address: DatabaseAddress): StartError | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const where = `The database at ${placeOf(address)} (DATABASE_URL)`;
  if (code === 'TLS_REFUSED') {
    return new StartError(
      `${where} offers no TLS, which sslmode=${address.sslMode} asks for. Turn ssl on in postgresql.conf, or set sslmode=disable where the way to it is safe.`,
      { cause: error },
    );
  }
  if (isTlsFailure(error)) {
    return new StartError(
      `${where} is not to be trusted: ${error.message}. sslmode=${address.sslMode} verifies it; name the certificate of its authority in sslrootcert, and the host as the certificate has it.`,
      { cause: error },
    );
  }
  if (error.name !== 'PostgresError') return null;
  const step = stepFor(code, address);
  return step === null
    ? null
    : new StartError(`${where} refused: ${error.message}. ${step}`, { cause: error });
}

/** Throws StartError where nothing can be written, or no table made while there is none. */
export async function refuseReadOnly(sql: Database, address: DatabaseAddress): Promise<void> {
  const [row] = await sql<{ isStandby: boolean; isReadOnly: boolean }[]>`
    SELECT pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly"`;
  if (row?.isStandby !== true && row?.isReadOnly !== true) return;
  const { user, database } = address;
  const step = row.isStandby
    ? 'is a standby, which takes no writes. Name the primary in DATABASE_URL.'
    : `takes no writes. Run: ALTER ROLE ${quoted(user, 'CURRENT_USER')} IN DATABASE ${quoted(database, '...')} SET default_transaction_read_only = off;`;
  throw new StartError(`The database at ${placeOf(address)} (DATABASE_URL) ${step}`);
}
