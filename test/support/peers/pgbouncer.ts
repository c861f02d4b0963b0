import { chownSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { startGuarded } from '../../../control-plane/storage/guarded-process.ts';
import { postgresUser } from '../../../control-plane/storage/postgres-user.ts';
import { freePort } from '../base/free-port.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { until } from '../base/until.ts';
import { sharedService } from '../run/shared-services.ts';

export interface TestPgBouncer {
  /** The database of the server behind, without a password. */
  readonly url: string;
  stop(): Promise<void>;
}

const stopMsMax = 5_000;

/** Debian's PgBouncer in transaction mode; `settings` are lines of its `[pgbouncer]` section. */
export async function testPgBouncer(
  databaseUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<TestPgBouncer> {
  const command = await sharedService('pgbouncer');
  const user = await postgresUser();
  const folder = temporaryFolder();
  const port = await freePort();
  const { hostname, port: serverPort, pathname, username, password } = new URL(databaseUrl);
  const database = pathname.slice(1);
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    ...settings,
  };
  const text = [
    '[databases]',
    `${database} = host=${hostname} port=${serverPort} user=${username} password=${password}`,
    '[pgbouncer]',
    ...Object.entries(lines).map(([name, value]) => `${name} = ${value}`),
  ];
  const file = join(folder.path, 'pgbouncer.ini');
  writeFileSync(file, `${text.join('\n')}\n`, { mode: 0o600 });
  if (user !== null) chownSync(file, user.uid, user.gid);
  const server = startGuarded({ command, args: [file], env: {}, user });
  await until(async () => !server.isRunning || (await isOpen(port)), { what: `pgbouncer on port ${port}` });
  if (!server.isRunning) throw new Error(`pgbouncer did not start:\n${server.lastLines()}`);
  return {
    url: `postgres://${username}@127.0.0.1:${port}/${database}`,
    stop: async () => {
      await server.stop({ timeoutMs: stopMsMax });
      folder.remove();
    },
  };
}

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
