import type { Channel } from '../../shared/model/channel.ts';
import { renderChannel } from '../../shared/wire/api/channel.ts';

/**
 * A channel as the audit shows it: without what moves with each attempt, and of an e-mail address only the
 * domain, because the audit is kept for ever. The hash shows changes.
 */
export function channelOnRecord(channel: Channel) {
  const { failing_since, failures, last_error, last_sent_at, ...rendered } = renderChannel(channel);
  const target = channel.kind === 'email' ? `…${/@.*$/.exec(rendered.target)?.[0] ?? ''}` : rendered.target;
  return { ...rendered, target };
}
