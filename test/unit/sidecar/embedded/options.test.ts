import { describe, expect, it } from 'vitest';
import { loggerOf, settingsOf } from '../../../../sidecar/embedded/options.ts';

const apiKey = `at_live_${'k'.repeat(40)}`;
const least = { controlPlaneUrl: 'https://trust.example.com', apiKey };

describe('the options of an embedded sidecar', () => {
  it('are settings of a sidecar, with the same defaults', () => {
    expect(settingsOf(least)).toMatchObject({
      ...{ CONTROL_PLANE_URL: 'https://trust.example.com', SIDECAR_API_KEY: apiKey, DATA_DIR: './.data' },
      ...{ REDIS_URL: null, SPOOL_FSYNC_MS: 50, LOG_LEVEL: 'info' },
    });
    expect(settingsOf({ ...least, dataDir: '/srv/trust', spoolFsyncMs: 0, logLevel: 'warn' })).toMatchObject({
      DATA_DIR: '/srv/trust',
      SPOOL_FSYNC_MS: 0,
      LOG_LEVEL: 'warn',
    });
  });

  it('are refused all at once, by the names of the options, without the value of a secret', () => {
    const secret = 'redis-password';
    const wrong = {
      ...{ controlPlaneUrl: 'https://trust.example.com/v1', apiKey: 'at_live_tooshort' },
      ...{ redisUrl: `http://:${secret}@localhost`, spoolFsyncMs: 0.5, readyWaitMs: -1, retries: 3 },
      constructor: 'named like a member that every object has',
    };
    expect(() => settingsOf(wrong)).toThrow(TypeError);
    const message = messageOf(() => settingsOf(wrong));
    const names = message.split('\n').map((line) => line.split(' ', 1)[0]);
    expect(names.toSorted()).toEqual(Object.keys(wrong).toSorted());
    expect(message).not.toContain(secret);
    expect(message).not.toContain('tooshort');
  });

  it('are refused where a program without types gives something else', () => {
    const wrong = { ...least, logger: {}, readyWaitMs: '7' } as unknown as typeof least;
    const names = messageOf(() => settingsOf(wrong)).split('\n');
    expect(names.map((line) => line.split(' ', 1)[0])).toEqual(['readyWaitMs', 'logger']);
    for (const none of [undefined, null, 'https://trust.example.com']) {
      expect(messageOf(() => settingsOf(none as unknown as typeof least))).toContain('takes an object');
    }
  });
});

describe('the logger of a program', () => {
  it('gets each line with the fields of its room', () => {
    const lines: unknown[] = [];
    const log = (fields: object, message: string) => void lines.push([fields, message]);
    const logger = loggerOf({ debug: log, info: log, warn: log, error: log });
    logger.child({ thread: 1 }).warn({ bytes: 2 }, 'full');
    expect(lines).toEqual([[{ thread: 1, bytes: 2 }, 'full']]);
  });

  it('may throw', () => {
    const log = () => {
      throw new Error('the disk of the program is full');
    };
    const logger = loggerOf({ debug: log, info: log, warn: log, error: log });
    expect(() => logger.child({}).error({}, 'full')).not.toThrow();
  });
});

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}
