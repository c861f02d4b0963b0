import { dirname } from 'node:path';
import {
  type DebianPostgres,
  type DebianPostgresOptions,
  startDebianPostgres,
} from '../../../bench/harness/debian-postgres.ts';
import { freePort } from '../base/free-port.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { sharedService } from './shared-services.ts';

/** TEST_POSTGRES=debian: wherever a test does not choose, it gets Debian's PostgreSQL over TCP. */
export const isDebianAsked = process.env['TEST_POSTGRES'] === 'debian';

/** Nothing waits for the disk; what else may be set is Debian's default. */
const disposable = { fsync: 'off', full_page_writes: 'off' };

/** PostgreSQL from Debian's package over TCP, of this caller's own. `stop` removes its data too. */
export async function testDebianPostgres(
  options: Partial<DebianPostgresOptions> = {},
): Promise<DebianPostgres> {
  const folder = temporaryFolder();
  const server = await startDebianPostgres({
    ...options,
    programs: options.programs ?? dirname(await sharedService('initdb')),
    folder: folder.path,
    port: await freePort(),
    configuration: { ...disposable, ...options.configuration },
  });
  return {
    ...server,
    get pid() {
      return server.pid;
    },
    stop: async () => {
      await server.stop();
      folder.remove();
    },
  };
}
