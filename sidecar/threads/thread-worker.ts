import { parentPort, workerData } from 'node:worker_threads';
import { redisBus } from '../../shared/bus/redis.ts';
import { must } from '../../shared/errors/assert.ts';
import { standardErrorLogger } from '../../shared/runtime/logger.ts';
import { repairJsonParse } from '../../shared/runtime/sound-json.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { chooseServer } from '../http/choose-server.ts';
import { startFromSettings } from '../startup/from-settings.ts';
import {
  answerQuestions,
  ask,
  metricsMsMax,
  type ThreadReport,
  type ThreadStart,
} from './thread-questions.ts';

repairJsonParse();

// The whole program of one listening thread. Main and thread run the same build, so messages have their
// types.
const { settings, index, port }: ThreadStart = workerData;
const main = must(parentPort, 'a listening thread is started by start-threads.ts');
const logger = standardErrorLogger({ level: settings.LOG_LEVEL, name: 'sidecar' }).child({ thread: index });
const tell = (news: ThreadReport): void => main.postMessage(news);

try {
  // Each thread has its own subscription; an in-process bus does not cross threads.
  const bus = settings.REDIS_URL === null ? null : redisBus({ url: settings.REDIS_URL, logger });
  const sidecar = await startFromSettings(settings, {
    index,
    port,
    exclusive: false,
    server: await chooseServer(process.env, settings.SIDECAR_HTTP),
    bus,
    metricsText: async (own) => {
      const all = await ask(main, 'metrics_of_all', 2 * metricsMsMax);
      return typeof all === 'string' ? all : own.metrics();
    },
    logger,
  });
  const close = async (): Promise<void> => {
    await sidecar.close();
    await bus?.close();
  };
  // A thread that ends with its listener open crashes the process, so everything is closed first.
  const closeAndEnd = (error: unknown): void => {
    logger.error(
      { err: error },
      'a listening thread failed with an internal error; it is closed and restarted',
    );
    void close().finally(() => process.exit(1));
  };
  process.on('uncaughtException', closeAndEnd);
  process.on('unhandledRejection', closeAndEnd);
  answerQuestions(main, async (question) => {
    if (question === 'metrics') return sidecar.metrics.getMetricsAsJSON();
    if (question === 'start_draining') {
      sidecar.startDraining();
      return null;
    }
    if (question === 'close') return close().then(() => null);
    throw new Error(`a thread has no answer to ${question}`);
  });
  tell({ kind: 'listening' });
  void sidecar.ready.then(() => tell({ kind: 'ready' }));
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  tell({ kind: 'failed', message, isStartError: error instanceof StartError });
  process.exit(1);
}
