/**
 * Room `control-plane/storage`: PostgreSQL: connections and what statements need of them
 * (`session-settings.ts`, `database-tls.ts`), `migrate.ts` with the folder `migrations`, `locks.ts` (every
 * advisory lock, and the order of all locks), `together.ts` (statements in one journey), `copy-rows.ts`
 * (many rows at once, as bytes), `bound-waits.ts`, `replica-reads.ts` (what may be some seconds old),
 * `fair-share.ts`, `embedded.ts`, and what a database refuses at the start (`start-refusals.ts`).
 */

import postgres from 'postgres';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { type DatabaseAddress, parseDatabaseUrl } from '../../shared/runtime/database-url.ts';
import { Wrong } from '../../shared/runtime/setting-values.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { Database } from '../base/database.ts';
import { driverTls } from './database-tls.ts';
import { storageLimits } from './limits.ts';
import {
  passesThroughPooler,
  passThroughPooler,
  pinTransactions,
  sessionSettings,
} from './session-settings.ts';
import { Sockets } from './watched-socket.ts';

export interface ConnectOptions {
  /**
   * `postgres://user:password@host:port/database?sslmode=...`, or for a Unix socket
   * `postgres:///database?host=/folder&user=name`, as libpq has it (docs/database.md).
   */
  readonly url: string;
  /** The setting that the URL is of, for errors; default: DATABASE_URL. */
  readonly setting?: DatabaseSetting;
  /** Connections of this pool; default `limits.databaseConnectionsMax`. */
  readonly connectionsMax?: number;
  /** How long the database may take over one statement; default `limits.databaseSilenceMsMax`. */
  readonly silenceMsMax?: number;
  /** For statements about all rows of a table, such as migrations; default: it is for those about a few. */
  readonly looksThroughTables?: boolean;
  /** See passThroughPooler. Default: no, until `waitForDatabase` finds out. */
  readonly isThroughPooler?: boolean;
  /** Called for each connection that the server refuses because it has no more. Default: none. */
  readonly onRefused?: () => void;
  /** Called for each sent statement, with its connection. Default: none. Tests watch locks with it. */
  readonly onStatement?: (connection: number, text: string, parameters: readonly unknown[]) => void;
}

/** A setting with the address of a database. */
export type DatabaseSetting = 'DATABASE_URL' | 'DATABASE_READ_URL';

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
 * `limits.databaseConnectMsMax`. Where the server has no room for one more connection, it waits for one of
 * this pool; without any it is tried for as long as a connection may take. On a connection that falls silent
 * it fails after `silenceMsMax`, with an unknown outcome. It is not repeated here. The pool connects again by
 * itself. `end()` closes it.
 */
export function connect(options: ConnectOptions): Database {
  const setting = options.setting ?? 'DATABASE_URL';
  const address = addressOf(options.url, setting);
  const isRefusal = (error: Error): boolean => {
    const isNoRoom =
      'code' in error && isNoRoomCode(error.code, { isThroughPooler: passesThroughPooler(sql) });
    if (isNoRoom) options.onRefused?.();
    return isNoRoom;
  };
  const sockets = new Sockets(options.silenceMsMax ?? limits.databaseSilenceMsMax);
  // Options of the driver that its types leave out, one of them of our patch.
  const untyped: object = {
    ...hostsOf(address),
    socket: sockets.make,
    isrefusal: isRefusal,
  };
  const sql: Database = postgres({
    ...placeOptions(address, setting),
    ...untyped,
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
  pinTransactions(sql, { onReadOnly: () => sockets.leaveServer() });
  if (options.isThroughPooler === true) passThroughPooler(sql);
  return sql;
}

/** Before it has a session PgBouncer refuses everything with 08P01. */
const isNoRoomCode = (code: unknown, on: { readonly isThroughPooler: boolean }): boolean =>
  code === '53300' || (on.isThroughPooler && code === '08P01');

/** Throws StartError where it cannot be read. */
export function addressOf(url: string, setting: DatabaseSetting = 'DATABASE_URL'): DatabaseAddress {
  const address = parseDatabaseUrl(url);
  if (address instanceof Wrong) throw new StartError(`${setting} ${address.sentence}.`);
  return address;
}

/** As lists: of a URL the driver reads an IPv6 address wrongly. */
const hostsOf = ({ socketFolder, hosts }: DatabaseAddress): object =>
  socketFolder === null
    ? { host: hosts.map(({ host }) => host), port: hosts.map(({ port }) => port) }
    : { host: socketFolder, port: hosts[0]?.port };

const placeOptions = (address: DatabaseAddress, setting: DatabaseSetting) => ({
  ...(address.user === null ? {} : { user: address.user }),
  ...(address.password === null ? {} : { password: address.password }),
  ...(address.database === null ? {} : { database: address.database }),
  ...(address.sessionKind === null ? {} : { target_session_attrs: address.sessionKind }),
  ssl: driverTls(address, setting),
});

/** The URL of a server that listens in this folder. */
export const socketUrl = (options: {
  readonly folder: string;
  readonly database: string;
  readonly user: string;
}): string =>
  `postgres:///${options.database}?${new URLSearchParams({ host: options.folder, user: options.user })}`;
