import { createServer, connect as dial, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';

/**
 * Passes bytes to the database until it is frozen: then connections stay open, new ones too, and nothing
 * comes through.
 */
async function freezableLink(folder: string, databaseUrl: string) {
  const url = new URL(databaseUrl);
  const behind = join(url.searchParams.get('host') ?? '', '.s.PGSQL.5432');
  const open = new Set<Socket>();
  let isFrozen = false;
  const server = createServer((near) => {
    const far = dial(behind);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
      socket.on('data', (bytes) => other.write(bytes));
      if (isFrozen) socket.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(join(folder, '.s.PGSQL.5432'), resolve));
  url.searchParams.set('host', folder);
  return {
    url: url.href,
    freeze: () => {
      isFrozen = true;
      for (const socket of open) socket.pause();
    },
    thaw: () => {
      isFrozen = false;
      for (const socket of open) socket.resume();
    },
    close: () => {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}

export interface HangingDatabase {
  readonly api: Api;
  readonly link: Awaited<ReturnType<typeof freezableLink>>;
  /** What the control plane has its database through. */
  linked: Database;
  close(): Promise<void>;
}

/** A control plane whose database can fall silent. */
export async function hangingDatabase(silenceMsMax: number): Promise<HangingDatabase> {
  const folder = temporaryFolder();
  let world: HangingDatabase | null = null;
  // The app is built before its database has a name; the pool behind the link takes over with the first
  // request.
  const target = (direct: Database): Database => world?.linked ?? direct;
  const api = await startOwnApi({
    wrapSql: (direct) =>
      new Proxy(direct, {
        apply: (_sql, _this, args) => Reflect.apply(target(direct), undefined, args),
        get: (_sql, name) => Reflect.get(target(direct), name),
      }),
  });
  const link = await freezableLink(folder.path, api.databaseUrl);
  const made: HangingDatabase = {
    api,
    link,
    linked: connect({ url: link.url, connectionsMax: 4, silenceMsMax }),
    close: async () => {
      link.close();
      await made.linked.end({ timeout: 1 });
      await api.close();
      folder.remove();
    },
  };
  world = made;
  return made;
}
