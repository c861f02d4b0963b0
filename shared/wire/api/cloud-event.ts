import type { WebhookEvent } from '../../model/webhook.ts';

/*
 * Events of webhooks as CloudEvents 1.0 in structured mode (https://github.com/cloudevents/spec,
 * cloudevents/formats/json-format.md).
 */

export const cloudEventContentType = 'application/cloudevents+json; charset=utf-8';

/** The member of `data` that names what an event is about. */
const subjects: { readonly [Event in WebhookEvent]: string } = {
  'passport.verified': 'passport_id',
  'passport.denied': 'passport_id',
  'passport.revoked': 'passport_id',
  'gate.created': 'gate_id',
  'shadow.ended': 'gate_id',
  'spend_limit.approaching': 'gate_id',
  'approval.requested': 'approval_id',
  'approval.resolved': 'approval_id',
  'hold.expired': 'attestation_id',
  'outcome.refused': 'outcome_id',
  'mcp_pin.changed': 'pin_id',
  'history.regressed': 'generation',
};

/**
 * The standard body of an event as a CloudEvent. `id` and `source` together name the event wherever it is
 * sent; the time is that of the event, however late it is delivered. `subject` is absent where the event is
 * about nothing that has an id, such as a token that does not verify.
 */
export function cloudEventOf(
  body: string,
  { id, source }: { readonly id: string; readonly source: string },
): string {
  const { event, timestamp, data } = JSON.parse(body) as {
    readonly event: WebhookEvent;
    readonly timestamp: string;
    readonly data: Readonly<Record<string, unknown>>;
  };
  const subject = data[subjects[event]];
  return JSON.stringify({
    specversion: '1.0',
    id,
    source,
    type: `agent-trust.${event}`,
    ...(typeof subject === 'string' && { subject }),
    time: timestamp,
    datacontenttype: 'application/json',
    data,
  });
}
