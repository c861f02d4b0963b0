import { textHash } from '../../shared/crypto/content-hash.ts';
import { nonceBytes, type Sealer } from '../../shared/crypto/seal.ts';
import { readWebhookSecret } from '../../shared/crypto/webhook-signature.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ChannelKind } from '../../shared/model/channel.ts';
import type { ChannelId } from '../../shared/model/ids.ts';
import { storedTarget, targetFault } from '../../shared/wire/api/channel.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { refuseTarget } from '../outbox/guarded-fetch.ts';
import type { ChannelDeps } from './deps.ts';

/** Where a channel's messages go. `secret`: with which they are signed; null for kinds that sign nothing. */
export interface SealedTarget {
  readonly target: string;
  readonly secret: string | null;
}

export const channelSealContext = (channelId: ChannelId): string => `channels/${channelId}`;

export const sealTarget = (
  { sealer, random }: Pick<ChannelDeps, 'sealer' | 'random'>,
  channelId: ChannelId,
  target: SealedTarget,
): string =>
  textSeal(sealer, channelSealContext(channelId), () => random.bytes(nonceBytes)).seal(
    JSON.stringify(target),
  );

/** Throws SealError. */
export const openTarget = (sealer: Sealer, channelId: ChannelId, sealed: string): SealedTarget =>
  JSON.parse(
    Buffer.from(sealer.open(sealed, channelSealContext(channelId))).toString('utf8'),
  ) as SealedTarget;

export const signingSecret = (secret: string): Uint8Array =>
  must(readWebhookSecret(secret), 'what was sealed as the secret of a channel is one');

/** A target that may be sent to, in the form in which it is stored and in that in which it is shown. */
export interface ReadTarget {
  readonly target: string;
  readonly shownTarget: string;
  readonly targetHash: string;
}

/**
 * Throws `invalid_request` for a target that would never be sent to, without quoting it: the URL of a Slack
 * webhook is all that it takes to write there. A name that resolves to a private address is found out when it
 * is called.
 */
export function readTarget(
  { outbound, mailer }: Pick<ChannelDeps, 'outbound' | 'mailer'>,
  kind: ChannelKind,
  given: string,
): ReadTarget {
  if (kind === 'email') refuseWithoutServer(mailer);
  else refuseTarget(outbound, 'target', given);
  const fault = targetFault(kind, given);
  if (fault !== null) throw invalidRequest('target', `target ${fault}.`);
  const target = storedTarget(kind, given);
  const shownTarget = kind === 'email' ? target : maskUrl(target);
  return { target, shownTarget, targetHash: textHash(target) };
}

function refuseWithoutServer(mailer: ChannelDeps['mailer']): void {
  if (mailer === null) {
    throw invalidRequest(
      'kind',
      'A channel of the kind email needs a mail server: set SMTP_URL and SMTP_FROM of the control plane.',
    );
  }
}

/** Host and the last four characters of a URL that has more than forty after its host. */
function maskUrl(target: string): string {
  const { origin, href } = new URL(target);
  const rest = href.slice(origin.length);
  if (rest === '/') return origin;
  return `${origin}/…${rest.length > secretCharsMin ? rest.slice(-shownChars) : ''}`;
}

/** So much stays unknown that it cannot be guessed. */
const secretCharsMin = 40;
const shownChars = 4;
