import { readWebhookSecret, signWebhook } from '../../shared/crypto/webhook-signature.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { toSeconds, type UnixMillis } from '../../shared/model/time.ts';
import type { WebhookFormat } from '../../shared/model/webhook.ts';
import { parseWebUrl } from '../../shared/wire/api/domain.ts';
import { webhookHeaders } from '../../shared/wire/api/webhook.ts';
import { reasonOf, UsageError } from '../base/call-api.ts';

/**
 * Sends an event to a program on this machine as the service sends it to an endpoint: the same body, headers
 * and signature.
 */
export async function forwardEvent(
  url: string,
  event: {
    readonly id: string;
    readonly body: string;
    /** Of the body. */
    readonly format: WebhookFormat;
    readonly secret: string;
    readonly nowMs: UnixMillis;
    /** Ends it early. */
    readonly signal?: AbortSignal;
  },
): Promise<{ readonly isTaken: boolean; readonly outcome: string }> {
  const { id, body, format, secret, nowMs } = event;
  const key = must(readWebhookSecret(secret), 'a secret that was checked');
  const message = { id, format, timestampS: toSeconds(nowMs), body };
  const deadline = AbortSignal.timeout(limits.webhookTimeoutMs);
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: webhookHeaders({ ...message, signatures: [signWebhook(key, message)] }),
      body,
      redirect: 'manual',
      signal: event.signal === undefined ? deadline : AbortSignal.any([event.signal, deadline]),
    });
    await response.body?.cancel();
    return { isTaken: response.ok, outcome: String(response.status) };
  } catch (error) {
    return { isTaken: false, outcome: reasonOf(error) };
  }
}

/** Throws UsageError for anything but an http address. */
export function checkForwardUrl(text: string): void {
  if (parseWebUrl(text) === null) {
    throw new UsageError(
      `--forward-to must be an http address, such as http://localhost:3000/webhooks, not "${text}"`,
    );
  }
}
