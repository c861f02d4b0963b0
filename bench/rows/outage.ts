import { contest } from '../harness/contest.ts';
import { otherCore } from '../harness/cores.ts';
import { findProgram, freePort, type Program, start } from '../harness/programs.ts';
import type { Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { warmLoad } from '../harness/warm-load.ts';

/** P9: warm decisions at a gate without quotas while Redis, control plane and database are down. */
export async function outage(options: BenchOptions): Promise<Table> {
  const redisServer = findProgram('redis-server');
  const about = {
    row: 'outage',
    title: 'Warm decisions while Redis and control plane are down, on one core',
    notes: [
      'Down: both programs and the database are ended before the measurement and started again after it, so that each round is inside the freshness bound. What was decided meanwhile is shipped then, and counts only when it is committed.',
    ],
  };
  return contest(options, about, async (scene) => {
    if (redisServer === null) {
      const reason = 'redis-server is not installed (Debian: apt-get install redis-server).';
      return { contenders: [], skipped: [{ side: 'everything', reason }] };
    }
    const port = await freePort();
    let redis = await startRedis(redisServer, port);
    scene.atEnd(() => redis.stop());
    const settings = { REDIS_URL: `redis://127.0.0.1:${port}` };
    const installation = await scene.installed({ sidecarSettings: settings, controlPlaneSettings: settings });
    const { shipped, ...asked } = await warmLoad(scene, installation, 'outage');
    const away = {
      begin: async () => {
        await installation.stopControlPlane();
        await redis.stop();
      },
      end: async () => {
        redis = await startRedis(redisServer, port);
        await installation.startControlPlane();
        await shipped();
      },
    };
    return {
      contenders: [
        {
          ...asked,
          name: 'everything else is down',
          finish: away.end,
          side: (of: Side): Side => ({
            ...of,
            measure: (seconds) => away.begin().then(() => of.measure(seconds)),
          }),
          does: 'decides on what it knows, spools its records, ships them when the control plane is back',
          doesNot: '',
          target: null,
        },
        {
          ...asked,
          name: 'everything is there',
          finish: shipped,
          does: 'the same, and ships its records meanwhile',
          doesNot: '',
          target: wantedOf('P9'),
        },
      ],
    };
  });
}

async function startRedis(command: string, port: number): Promise<Program> {
  const redis = start({
    core: otherCore,
    command: [command, '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
  });
  await redis.find(/Ready to accept connections/);
  return redis;
}
