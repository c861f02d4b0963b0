import { stat } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { redisBus } from '../../shared/bus/redis.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { hourMs, secondMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type { CommandHost } from '../base/host.ts';
import { type Finding, fail, ok, unknown, warn } from './doctor-finding.ts';

/** Longer than a healthy server takes, short enough to wait for. */
const answerMsMax = 5 * secondMs;

/** DATABASE_URL from this machine: whether it answers, as what, and how its clock is. */
export async function checkDatabase(url: string, ask: CommandHost['askDatabase']): Promise<Finding> {
  try {
    const { version, nowMs } = await ask(url, answerMsMax);
    const offsetMs = Math.abs(nowMs - systemClock.now());
    if (offsetMs > answerMsMax) {
      return warn(
        'database',
        `PostgreSQL ${version}; its clock and that of this machine differ by ${Math.round(offsetMs / secondMs)} s`,
        'Run NTP on both: times in records are those of the database.',
      );
    }
    return ok('database', `PostgreSQL ${version} answers at DATABASE_URL`);
  } catch (error) {
    return fail(
      'database',
      `DATABASE_URL: ${messageOf(error)}`,
      'Start PostgreSQL, or correct DATABASE_URL (docs/database.md).',
    );
  }
}

/** REDIS_URL from this machine. */
export async function checkRedis(url: string): Promise<Finding> {
  const next = 'Start Redis, or correct REDIS_URL (docs/redis.md). Until then sidecars poll.';
  try {
    const bus = redisBus({ url, logger: silentLogger });
    try {
      for (const endsAtMs = performance.now() + answerMsMax; performance.now() < endsAtMs; await pause(50))
        if (bus.isConnected) return ok('redis', 'answers at REDIS_URL');
      return warn('redis', `no connection within ${answerMsMax / secondMs} s`, next);
    } finally {
      await bus.close();
    }
  } catch (error) {
    return fail('redis', `REDIS_URL: ${messageOf(error)}`, next);
  }
}

/** The service makes no backups, so it cannot know of them: a file that the backup touches does. */
export async function checkBackup(stamp: string | null, hoursMax: number): Promise<Finding> {
  const touch = 'Let your backup touch a file when it is done, and name it with --backup-stamp.';
  if (stamp === null) return unknown('backup', 'the service does not know of your backups', touch);
  try {
    const { mtimeMs } = await stat(stamp);
    const hours = (systemClock.now() - mtimeMs) / hourMs;
    const age = `the last backup ended ${hours.toFixed(1)} h ago`;
    if (hours < -1)
      return fail('backup', `${stamp} is of the future`, 'Compare the clocks of both machines.');
    return hours > hoursMax
      ? fail(
          'backup',
          `${age}, over ${hoursMax} h`,
          'Look why it did not run (docs/operate/backup-and-restore.md).',
        )
      : ok('backup', age);
  } catch (error) {
    return fail('backup', `${stamp}: ${messageOf(error)}`, touch);
  }
}
