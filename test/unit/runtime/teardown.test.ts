import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { teardown } from '../../../shared/runtime/teardown.ts';

describe('teardown', () => {
  it('stops the last one first, each after the one before it is done', async () => {
    const started = teardown(silentLogger);
    const events: string[] = [];
    for (const name of ['database', 'bus', 'HTTP']) {
      started.add(name, async () => {
        events.push(`${name} begins`);
        await Promise.resolve();
        events.push(`${name} ends`);
      });
    }
    await started.run();
    expect(events).toEqual([
      ...['HTTP begins', 'HTTP ends', 'bus begins', 'bus ends', 'database begins', 'database ends'],
    ]);
  });

  it('goes on after one that fails, and reports it', async () => {
    const errors: object[] = [];
    const started = teardown({ ...silentLogger, error: (fields) => void errors.push(fields) });
    let isStopped = false;
    started.add('database', () => {
      isStopped = true;
    });
    started.add('bus', () => Promise.reject(new Error('no')));
    await started.run();
    expect(isStopped).toBe(true);
    expect(errors).toEqual([{ err: new Error('no'), what: 'bus' }]);
  });

  it('stops everything once, however often it is asked', async () => {
    const started = teardown(silentLogger);
    let stops = 0;
    started.add('database', () => void stops++);
    await Promise.all([started.run(), started.run()]);
    await started.run();
    expect(stops).toBe(1);
  });
});
