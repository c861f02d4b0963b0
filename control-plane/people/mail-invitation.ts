import { channelsLimits } from '../channels/limits.ts';
import { mailText } from '../channels/mail-text.ts';
import { lines, minuteText } from '../channels/notice.ts';
import type { PeopleDeps } from './deps.ts';
import { describeInvitation } from './invitation-store.ts';
import type { InvitedUser } from './invite-user.ts';

/**
 * Mails the link once and now, so that the inviter learns what came of it. No transaction is open meanwhile:
 * the mail server may take its time. Empty: this one is not mailed.
 */
export async function mailInvitation(
  { sql, mailer }: Pick<PeopleDeps, 'sql' | 'mailer'>,
  { user, invitation: { url, expiresAtMs }, delivery }: InvitedUser,
) {
  if (mailer === null || delivery === 'link') return {};
  const words = await describeInvitation(sql, user);
  if (words === null) return {};
  const by = words.invited_by_name ?? `an API key of ${words.account_name}`;
  const facts = lines([
    ['Invited by', by],
    ['Account', words.account_name],
    ['Service', new URL(url).host],
    ['As', words.role.replace('_', ' ')],
    ['Open until', minuteText(expiresAtMs)],
  ]);
  const notice = { headline: 'Invitation', subject: `${words.account_name} on agent-trust, by ${by}`, facts };
  const outcome = await mailer.send(
    {
      to: user.email,
      messageId: `${user.userId}.invitation.${expiresAtMs}`,
      threadId: null,
      ...mailText(
        { ...notice, said: [], url, linkText: 'Accept the invitation' },
        'Whoever opens the link first becomes this person.',
      ),
    },
    new AbortController().signal,
  );
  if (outcome.isSent) return { mail: { sent: true, error: null } };
  const { code, detail } = outcome;
  const error = { code, detail: detail.slice(0, channelsLimits.channelErrorCharsMax) };
  return { mail: { sent: false, error } };
}
