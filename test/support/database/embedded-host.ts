/**
 * A process whose only content is an embedded PostgreSQL in the folder it is given: tests kill it. Prints the
 * URL when it is up.
 */
import { startEmbeddedPostgres } from '../../../control-plane/storage/embedded.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';

const dataDir = process.argv[2] ?? '';
const { url } = await startEmbeddedPostgres({ dataDir, logger: silentLogger, isDisposable: true });
process.stdout.write(`${url}\n`);
// Lives until it is killed.
setInterval(() => undefined, 60_000);
