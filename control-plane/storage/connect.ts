import postgres from 'postgres';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Database } from '../base/database.ts';
import { storageLimits } from './limits.ts';
import { passThroughPooler, pinTransactions, sessionSettings } from './session-settings.ts';
import { socketMaker } from './watched-socket.ts';

export interface ConnectOptions {
  /**
   * `postgres://user:password@host:port/database`, or for a Unix socket
   * `postgres:///database?host=/folder&user=name`, as libpq has it.
   */
  readonly url: string;
  /** Connections of this pool; default `limits.databaseConnectionsMax`. */
  readonly connectionsMax?: number;
  /** How long the database may take over one statement; default `limits.databaseSilenceMsMax`. */
  readonly silenceMsMax?: number;
  /** For statements about all rows of a table, such as migrations; default: it is for those about a few. */
  readonly looksThroughTables?: boolean;
  /** See passThroughPooler. Default: no, until `waitForDatabase` finds out. */
  readonly isThroughPooler?: boolean;
  /** Given each statement that is sent, with its connection. Default: nobody. Tests watch locks with it. */
  readonly onStatement?: (connection: number, text: string, parameters: readonly unknown[]) => void;
}

const bigintOid = 20;

/**
 * postgres.js hands over a `bigint` as text, so that nothing is lost; ours all fit, and one that does not is
 * our mistake.
 */
function parseBigint(text: string): number {
  const value = Number(text);
  return must(Number.isSafeInteger(value) ? value : null, 'a bigint of the database stays below 2^53');
}

const types = {
  bigint: {
    to: bigintOid,
    from: [bigintOid],
    serialize: (value: number): string => String(value),
    parse: parseBigint,
  },
};

/**
 * A pool of connections, opened as they are needed: this call does no I/O, and throws only for a malformed
 * URL. Columns of type `bigint` and `bigint[]` arrive as numbers; `numeric` (what `sum(bigint)` gives) still
 * arrives as text, so cast it in the query.
 *
 * A query on a database that is away fails at once where the connection is refused, and otherwise after
 * `limits.databaseConnectMsMax`; on a connection that falls silent it fails after `silenceMsMax`, with an
 * unknown outcome. It is not repeated here. The pool connects again by itself. `end()` closes it.
 */
export function connect(options: ConnectOptions): Database {
  const { url, socketFolder, user } = splitUrl(options.url);
  // An option of the driver that its types leave out.
  const sockets = { socket: socketMaker(options.silenceMsMax ?? limits.databaseSilenceMsMax) };
  const sql = postgres(url, {
    ...sockets,
    ...(socketFolder === null ? {} : { host: socketFolder }),
    ...(user === null ? {} : { user }),
    ...(options.onStatement === undefined ? {} : { debug: options.onStatement }),
    max: options.connectionsMax ?? limits.databaseConnectionsMax,
    idle_timeout: storageLimits.databaseIdleMsMax / 1_000,
    connect_timeout: limits.databaseConnectMsMax / 1_000,
    // The library's own pause grows to 20 s, which would keep answering 503 long after the database is back.
    backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, 0.5),
    types,
    onnotice: () => undefined,
    connection: {
      application_name: 'agent-trust',
      ...sessionSettings({ looksThroughTables: options.looksThroughTables ?? false }),
    },
  });
  pinTransactions(sql);
  if (options.isThroughPooler === true) passThroughPooler(sql);
  return sql;
}

/** postgres.js would send `host` and `user` of the query to the server as settings of the session. */
function splitUrl(text: string): { url: string; socketFolder: string | null; user: string | null } {
  const url = new URL(text);
  const socketFolder = url.searchParams.get('host');
  const user = url.searchParams.get('user');
  url.searchParams.delete('host');
  url.searchParams.delete('user');
  return { url: url.href, socketFolder, user };
}

/** The URL of a server that listens in this folder. */
export const socketUrl = (options: {
  readonly folder: string;
  readonly database: string;
  readonly user: string;
}): string =>
  `postgres:///${options.database}?${new URLSearchParams({ host: options.folder, user: options.user })}`;
