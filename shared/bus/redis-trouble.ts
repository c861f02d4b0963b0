import { type ConnectionTrouble, connectionTrouble } from '../runtime/connection-trouble.ts';

/** The commands of the ACL to give a user of Redis (docs/redis.md). */
const neededAcl = 'resetchannels &agent-trust:* +publish +subscribe +unsubscribe';

const refusals: Readonly<Record<string, string>> = {
  NOPERM: `The user of REDIS_URL lacks a permission. It needs: ACL SETUSER <user> ${neededAcl}`,
  WRONGPASS: 'The user or password in REDIS_URL is wrong.',
  NOAUTH: 'Redis wants a password: REDIS_URL has none.',
  MOVED: 'REDIS_URL leads into a cluster that sends us elsewhere. Name a node that serves by itself.',
  CLUSTERDOWN: 'The Redis cluster is down.',
  READONLY: 'REDIS_URL names a read-only replica. Name the primary.',
  OOM: 'Redis is out of memory (maxmemory).',
  MISCONF: 'Redis refuses writes, because it cannot save to its disk.',
  LOADING: 'Redis is still loading its data.',
  MASTERDOWN: 'The primary of this replica is down.',
  DENIED: 'Redis is in protected mode: it wants a password, or another bind address.',
  MAXCLIENTS: 'Redis has no connection left (maxclients).',
};

/** An error answer of Redis itself. */
export const isRefusal = (error: unknown): error is Error =>
  error instanceof Error && error.name === 'ReplyError';

/** Excludes the error's message, which may name the user. */
export function redisTrouble(error: unknown): ConnectionTrouble {
  if (!isRefusal(error))
    return connectionTrouble(error, 'sslrootcert of REDIS_URL or in NODE_EXTRA_CA_CERTS');
  const code = refusalCode(error.message);
  return { code, meaning: refusals[code] ?? null };
}

function refusalCode(message: string): string {
  if (/max number of clients/i.test(message)) return 'MAXCLIENTS';
  if (/without any password|no password is set/i.test(message)) return 'WRONGPASS';
  return /^-?([A-Z]{2,20})\b/.exec(message)?.[1] ?? 'ERR';
}
