import { describe, expect, it } from 'vitest';
import { redactAnswer } from '../../../../control-plane/outbox/redact-answer.ts';
import { cpuMsOf } from '../../../support/base/cpu-time.ts';

const redact = (text: string, isCut = false) => redactAnswer(Buffer.from(text), { isCut });

describe('an answer that is kept', () => {
  it.each([
    'Service Unavailable',
    '{"error":"no such customer","id":"evt_01m7w8f9p4a1b2c3d4e5f6g7hj","retry":true}',
    'request 7f9c24e8-3b1a-4f6d-9c52-0d1e2f3a4b5c failed\n\tat handler (/srv/app.js:10:5)',
  ])('is kept as it is where nothing in it looks like a secret: %s', (text) => {
    expect(redact(text)).toBe(text);
  });

  it.each([
    ['{"password": "hunter2", "user": "a"}', '{"password": "[redacted]", "user": "a"}'],
    ['api_key=abc123&x=1', 'api_key=[redacted]&x=1'],
    ['Authorization: Bearer abc.def', 'Authorization: [redacted] [redacted]'],
    ['key at_live_0123456789abcdef here', 'key [redacted] here'],
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', '[redacted]'],
    ['jwt eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2ln', 'jwt [redacted]'],
    ['AKIAIOSFODNN7EXAMPLE', '[redacted]'],
    ['postgres://user:pa55@db/x', 'postgres://[redacted]@db/x'],
    [`digest ${'0123456789abcdef'.repeat(4)}!`, 'digest [redacted]!'],
    ['-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----', '[redacted]'],
  ])('%s', (text, kept) => {
    expect(redact(text)).toBe(kept);
  });

  it('loses control characters, NUL among them, and bytes that are no text', () => {
    expect(redact('a\u0000b\u001b[31m\r\nc\td')).toBe('a b [31m \nc\td');
    expect(redactAnswer(Uint8Array.of(0xff, 0x61), { isCut: false })).toBe('\uFFFDa');
  });

  it('loses a word that is cut at its end, which may be half of a secret', () => {
    expect(redact('key at_live_0123', true)).toBe('key ');
    expect(redact('all is well', false)).toBe('all is well');
  });

  it('takes linear time even for hostile input', () => {
    const tookMs = cpuMsOf(() => {
      for (const part of ['password', '://', 'a:', 'bearer ', '-----BEGIN A', '"', 'secret_', 'A1']) {
        redact(part.repeat(1_024 / part.length));
      }
    });
    expect(tookMs).toBeLessThan(200);
  });
});
