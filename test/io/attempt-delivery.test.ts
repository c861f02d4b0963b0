import { describe, expect, it } from 'vitest';
import { pauseBefore, retryAfterMs } from '../../control-plane/webhooks/attempt-delivery.ts';
import { webhooksLimits } from '../../control-plane/webhooks/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { type Random, systemRandom } from '../../shared/runtime/random.ts';

const chance = (byte: number): Random => ({
  ...systemRandom(),
  bytes: (count) => new Uint8Array(count).fill(byte),
});
const nowMs = Date.UTC(2026, 9, 21, 7, 0, 0) as UnixMillis;
const asked = (text: string) => retryAfterMs({ headers: { 'retry-after': text } }, nowMs);

describe('the pause before an attempt', () => {
  it('is that of contract §14, give or take a tenth, and there is none after the tenth attempt', () => {
    const pauses = [0, 5 * secondMs, 5 * minuteMs, 30 * minuteMs, 2, 5, 10, 14, 20, 24].map((pause, index) =>
      index < 4 ? pause : pause * hourMs,
    );
    for (const [tries, pauseMs] of pauses.entries()) {
      expect(pauseBefore(tries, chance(0))).toBeCloseTo(pauseMs * 0.9, 5);
      expect(pauseBefore(tries, chance(255))).toBeCloseTo(pauseMs * 1.1, 5);
    }
    expect(pauseBefore(10, chance(0))).toBeNull();
  });
});

describe('Retry-After', () => {
  it('is a number of seconds or a date, up to a bound', () => {
    expect(asked('120')).toBe(2 * minuteMs);
    expect(asked('Wed, 21 Oct 2026 07:28:00 GMT')).toBe(28 * minuteMs);
    expect(asked('999999999')).toBe(webhooksLimits.webhookRetryAfterMsMax);
    expect(asked('99999999999')).toBe(webhooksLimits.webhookRetryAfterMsMax);
    expect(asked('9'.repeat(400))).toBe(webhooksLimits.webhookRetryAfterMsMax);
    expect(asked(new Date(nowMs + dayMs).toUTCString())).toBe(webhooksLimits.webhookRetryAfterMsMax);
  });

  it.each(['', '0', '-5', '1.5', 'soon', 'Wed, 21 Oct 2020 07:28:00 GMT', '2026-10-21', '1e3'])(
    'of %j says nothing',
    (text) => {
      expect(asked(text)).toBeNull();
    },
  );
});
