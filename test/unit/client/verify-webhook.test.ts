import { Webhook as StandardWebhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { verifyWebhook } from '../../../shared/client/verify-webhook.ts';
import {
  makeWebhookSecret,
  readWebhookSecret,
  signWebhook,
  webhookSecretBytes,
} from '../../../shared/crypto/webhook-signature.ts';
import { must } from '../../../shared/errors/assert.ts';

const secret = makeWebhookSecret(new Uint8Array(webhookSecretBytes).fill(7));
const other = makeWebhookSecret(new Uint8Array(webhookSecretBytes).fill(8));
const sentMs = Date.UTC(2026, 10, 20, 12, 0, 0);
const body = JSON.stringify({
  event: 'gate.created',
  timestamp: '2026-11-20T12:00:00.000Z',
  data: { name: 'Kasse ä' },
});

/** As the library of the standard signs it, and not ours. */
const headersOf = (text = body, secrets = [secret], id = 'evt_1') => ({
  'webhook-id': id,
  'webhook-timestamp': String(sentMs / 1_000),
  'webhook-signature': secrets
    .map((each) => new StandardWebhook(each).sign(id, new Date(sentMs), text))
    .join(' '),
});
const at = (afterMs: number) => ({ nowMs: sentMs + afterMs });
const fault = (verdict: ReturnType<typeof verifyWebhook>) => verdict.kind === 'invalid' && verdict.fault;

describe('verifyWebhook', () => {
  it('takes what the library of the standard signs, as text and as bytes', () => {
    const valid = {
      kind: 'valid',
      id: 'evt_1',
      event: 'gate.created',
      timestamp: '2026-11-20T12:00:00.000Z',
      data: { name: 'Kasse ä' },
    };
    expect(verifyWebhook(body, headersOf(), [secret], at(0))).toEqual(valid);
    expect(verifyWebhook(Buffer.from(body), headersOf(), [secret], at(0))).toEqual(valid);
  });

  it('takes either secret while one replaces the other', () => {
    expect(verifyWebhook(body, headersOf(body, [other, secret]), [secret], at(0)).kind).toBe('valid');
    expect(verifyWebhook(body, headersOf(body, [secret]), [other, secret], at(0)).kind).toBe('valid');
  });

  it('finds its headers under any letters, in arrays, Headers, maps and pairs', () => {
    const own = headersOf();
    const capital = Object.entries(own).map(([name, value]) => [name.toUpperCase(), value] as const);
    const arrays = Object.fromEntries(capital.map(([name, value]) => [name, [value]]));
    for (const headers of [
      Object.fromEntries(capital),
      arrays,
      new Headers(own),
      new Map(capital),
      capital,
    ]) {
      expect(verifyWebhook(body, headers, [secret], at(0)).kind).toBe('valid');
    }
    const two = { ...own, 'webhook-signature': ['v1,AAAA', own['webhook-signature']] };
    expect(verifyWebhook(body, two, [secret], at(0)).kind).toBe('valid');
    for (const headers of [
      { ...own, 'Webhook-Id': 'evt_2' },
      { ...own, 'webhook-timestamp': ['1', '2'] },
    ]) {
      expect(fault(verifyWebhook(body, headers, [secret], at(0)))).toBe('headers_missing');
    }
  });

  it('refuses another body, id, time, secret or version', () => {
    const headers = headersOf();
    const wrong = [
      verifyWebhook(`${body} `, headers, [secret], at(0)),
      verifyWebhook(body, { ...headers, 'webhook-id': 'evt_2' }, [secret], at(0)),
      verifyWebhook(body, { ...headers, 'webhook-timestamp': String(sentMs / 1_000 + 1) }, [secret], at(0)),
      verifyWebhook(body, headers, [other], at(0)),
      verifyWebhook(body, headers, [], at(0)),
      verifyWebhook(
        body,
        { ...headers, 'webhook-signature': headers['webhook-signature'].replace('v1,', 'v2,') },
        [secret],
        at(0),
      ),
    ];
    expect(wrong.map(fault)).toEqual(Array(6).fill('signature_invalid'));
  });

  it('refuses what is older or newer than the tolerance, and only that', () => {
    const ages = [300_000, 300_001, -300_000, -300_001];
    expect(ages.map((age) => fault(verifyWebhook(body, headersOf(), [secret], at(age))))).toEqual([
      false,
      'too_old',
      false,
      'too_new',
    ]);
    expect(fault(verifyWebhook(body, headersOf(), [secret], { ...at(1_001), toleranceMs: 1_000 }))).toBe(
      'too_old',
    );
  });

  it('refuses missing headers and bodies that are no event, and throws for none of it', () => {
    const { 'webhook-id': _, ...without } = headersOf();
    expect(fault(verifyWebhook(body, without, [secret], at(0)))).toBe('headers_missing');
    for (const timestamp of ['', '1e9', '-1', 'now']) {
      const headers = { ...headersOf(), 'webhook-timestamp': timestamp };
      expect(fault(verifyWebhook(body, headers, [secret], at(0)))).toBe('headers_missing');
    }
    for (const text of ['', 'null', '[]', '{}', '{"event":1,"timestamp":"","data":{}}', '{']) {
      expect(fault(verifyWebhook(text, headersOf(text), [secret], at(0))), text).toBe('malformed');
    }
  });

  it('throws for text that is no secret, because nothing would ever verify', () => {
    for (const text of ['', 'whsec_', 'whsec_short', secret.slice(6), `${secret}=`, `${secret} `]) {
      expect(() => verifyWebhook(body, headersOf(), [text], at(0)), text).toThrow(TypeError);
    }
  });
});

describe('a signature', () => {
  it('is the one of the example in the standard', () => {
    // https://github.com/standard-webhooks/standard-webhooks, test vectors of the libraries.
    const key = must(readWebhookSecret('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'), 'a secret of 24 bytes');
    const message = {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestampS: 1_614_265_330,
      body: '{"test": 2432232314}',
    };
    expect(signWebhook(key, message)).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });
});
