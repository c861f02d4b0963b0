import { join } from 'node:path';
import { limits } from '../../shared/model/limits.ts';
import { hourMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type Random, systemRandom } from '../../shared/runtime/random.ts';
import { retryPause } from '../../shared/runtime/retry-pause.ts';
import type { SidecarSettings } from '../../shared/runtime/settings.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { Shipper } from '../attest/shipper.ts';
import { openSpool } from '../attest/spool.ts';
import { nodeFiles } from '../attest/spool-files.ts';
import { findEpochs, shippedFolder } from '../attest/spool-folder.ts';
import { ControlPlaneClient } from '../replica/control-plane-client.ts';
import { keepingFrom, threadFolder, threadsFolder } from './from-settings.ts';
import { sidecarIdOf } from './identity.ts';

/** After this the next start tries. */
const shipMsMax = hourMs;

/**
 * Ships the spools of threads that no longer exist because SIDECAR_THREADS was lowered: their answers
 * promised records, and no other program would ship them. Runs in the background, one folder at a time.
 */
export function shipLeftovers(
  settings: SidecarSettings,
  options: { readonly threads: number; readonly logger: Logger },
): { stop(): Promise<void> } {
  const { threads, logger } = options;
  const stopping = new AbortController();
  const finished = (async () => {
    for (const name of await nodeFiles.list(threadsFolder(settings))) {
      const index = Number(name);
      if (!Number.isInteger(index) || index < threads || stopping.signal.aborted) continue;
      await shipFolder(settings, threadFolder(settings, index), {
        logger: logger.child({ thread: index }),
        stopping: stopping.signal,
      });
    }
  })().catch((error: unknown) => {
    logger.error(
      { err: error },
      'the spools of earlier threads could not be shipped; the next start tries again',
    );
  });
  return {
    stop: () => {
      stopping.abort();
      return finished;
    },
  };
}

async function shipFolder(
  settings: SidecarSettings,
  folder: string,
  { logger, stopping }: { readonly logger: Logger; readonly stopping: AbortSignal },
): Promise<void> {
  const directory = join(folder, 'spool');
  const hasRecords = (await findEpochs(nodeFiles, directory, { isSole: false })).length > 0;
  if (!hasRecords && (await nodeFiles.list(shippedFolder(directory))).length === 0) return;
  const random = systemRandom();
  const client = new ControlPlaneClient({
    origin: settings.CONTROL_PLANE_URL,
    apiKey: settings.SIDECAR_API_KEY,
    sidecarId: await sidecarIdOf(folder, { clock: systemClock, random }),
    process: Buffer.from(random.bytes(16)).toString('hex'),
    clock: systemClock,
    logger,
  });
  const spool = await openSpool({
    directory,
    fsyncMs: settings.SPOOL_FSYNC_MS,
    keeping: keepingFrom(settings),
    clock: systemClock,
    random,
    logger,
  });
  await spool.close();
  const shipper = new Shipper({ spool, client, connection: () => client.connection, random, logger });
  stopping.addEventListener('abort', () => void shipper.stop(), { once: true });
  try {
    await connect(client, random, stopping);
    const history = await client.reportHistory({ receipts: [], entries: [] });
    if (history?.state === 'whole') shipper.noteGeneration(history.generation);
    const isAllShipped = await shipper.drain(shipMsMax);
    if (isAllShipped) logger.info({}, 'the records of an earlier thread are shipped');
    else
      logger.error(
        { records: await shipper.countLeft(), bytes: spool.waitingBytes, folder: spool.directory },
        'records of an earlier thread are left in its spool; the next start ships them',
      );
  } finally {
    await shipper.stop();
    await client.close();
  }
}

/** Retries until it succeeds or is stopped. */
async function connect(client: ControlPlaneClient, random: Random, stopping: AbortSignal): Promise<void> {
  const wakeup = makeWakeup();
  stopping.addEventListener('abort', () => wakeup.wake(), { once: true });
  const pause = retryPause(random, { firstMs: limits.retryFirstMs, lastMs: limits.retryLastMs });
  while (!stopping.aborted) {
    try {
      await client.connect();
      return;
    } catch {
      // The serving threads report a control plane that is away.
      await wakeup.sleep(pause.nextMs());
    }
  }
}
