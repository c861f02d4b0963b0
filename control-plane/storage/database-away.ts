import type { ErrorCode } from '../../shared/errors/catalogue.ts';

/** What the driver and the operating system call a connection that is not there. */
const awayCodes: ReadonlySet<string> = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EPIPE',
  'ETIMEDOUT',
]);

/** What OpenSSL and Node.js call a certificate that does not hold. */
const certificateCodes: ReadonlySet<string> = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** The other end of a connection cannot be believed, or takes no TLS. */
export const isTlsFailure = (error: Error): boolean =>
  'code' in error &&
  typeof error.code === 'string' &&
  (certificateCodes.has(error.code) || /^(?:TLS_REFUSED|ERR_TLS_|ERR_SSL_)/.test(error.code));

/**
 * SQLSTATE classes and codes of PostgreSQL (its manual, appendix A) after which the same call may succeed
 * later: the server goes down or comes up, or too many want the same thing at once.
 */
const sqlStates: readonly (readonly [prefix: string, code: ErrorCode])[] = [
  ['08', 'service_unavailable'],
  ['57P', 'service_unavailable'],
  ['25006', 'service_unavailable'],
  ['25P03', 'overloaded'],
  ['40', 'overloaded'],
  ['53', 'overloaded'],
  ['55P03', 'overloaded'],
  ['57014', 'overloaded'],
];

/** SQLSTATE lock_not_available: a lock was waited for as long as `lock_timeout` allows. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '55P03';

/** SQLSTATE query_canceled: the statement took longer than `statement_timeout` allows. */
export const isQueryCanceled = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '57014';

/** SQLSTATE deadlock_detected: the transaction had to give way, and succeeds when it is done again. */
export const isDeadlock = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '40P01';

/** The public error for a failure of the database; null: an internal error of ours. */
export function databaseFailure(error: unknown): ErrorCode | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (error.name === 'PostgresError') {
    return sqlStates.find(([prefix]) => code.startsWith(prefix))?.[1] ?? null;
  }
  if (isTlsFailure(error)) return 'service_unavailable';
  return awayCodes.has(code) && isOfConnection(error, code) ? 'service_unavailable' : null;
}

/** A missing file is also ENOENT; only the missing socket of the database counts. */
const isOfConnection = (error: Error, code: string): boolean =>
  code !== 'ENOENT' || ('syscall' in error && error.syscall === 'connect');
