import type { Approval } from '../../shared/model/approval.ts';
import type { ChannelEvent } from '../../shared/model/channel.ts';
import { type MicroUsd, renderUsd } from '../../shared/model/money.ts';
import { misleadingCharacter } from '../../shared/model/plain-text.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { channelsLimits } from './limits.ts';

/** What a message says of an approval, as it is when the message is sent. */
export interface NoticeFacts {
  readonly event: ChannelEvent;
  readonly approval: Approval;
  /** Further approvals that began, or ended, and have no message of their own; null: none. */
  readonly spokenFor: SpokenFor | null;
  /** Null: there is no such gate or passport any more. */
  readonly gateName: string | null;
  readonly agentName: string | null;
  /** Name of the person or key that answered; null: none did, or it is there no more. */
  readonly resolverName: string | null;
  /** The page of the console where a person answers: the only link of a message about one approval. */
  readonly approvalUrl: string;
  /** The page with all that wait: the only link of a digest. Null where there is none. */
  readonly listUrl: string | null;
}

/** Approvals without a message of their own, summed up. */
export interface SpokenFor {
  readonly count: number;
  readonly firstExpiresAtMs: UnixMillis;
  /** Of those that ended; the others expired without an answer. */
  readonly approved: number;
  readonly denied: number;
}

interface Line {
  readonly label: string;
  readonly value: string;
}

/**
 * A message before it has the form of a kind. All texts are plain and of one line; each kind escapes them in
 * its own way. `said` is what the requester wrote, unchecked.
 */
export interface Notice {
  /** In our words. */
  readonly headline: string;
  /** What is asked, in a few words of the requester, or the permission. */
  readonly subject: string;
  readonly facts: readonly Line[];
  readonly said: readonly Line[];
  readonly url: string;
  /** The text of the link. */
  readonly linkText: string;
}

export function noticeOf(facts: NoticeFacts): Notice {
  const { event, approval, spokenFor, listUrl, ...names } = facts;
  if (spokenFor !== null && listUrl !== null && spokenFor.count >= channelsLimits.channelBundleFrom)
    return digestOf(event, approval, { spokenFor, listUrl });
  const { display, permissionKey, amountMicroUsd, agentId } = approval;
  const agent =
    names.agentName === null || names.agentName === agentId ? agentId : `${names.agentName} (${agentId})`;
  const isOpen = event === 'approval.requested';
  return {
    headline: isOpen ? 'Approval needed' : ending(approval),
    subject: oneLine(display?.title ?? permissionKey ?? approval.approvalId),
    facts: lines([
      ['Amount', amountMicroUsd === null ? null : usdText(amountMicroUsd)],
      ['Agent', agent],
      ['For', approval.user],
      ['Gate', names.gateName ?? approval.gateId],
      ['Permission', permissionKey],
      ['Answered by', approval.resolvedBy === null ? null : (names.resolverName ?? approval.resolvedBy)],
      ['Note', approval.note],
      ['Answer until', isOpen ? minuteText(approval.expiresAtMs) : null],
      [
        'And',
        spokenFor === null
          ? null
          : `${spokenFor.count} more that ${isOpen ? 'wait' : 'ended'}: see Approvals in the console`,
      ],
    ]),
    said: lines((display?.lines ?? []).map(({ label, value }) => [label, value])),
    url: names.approvalUrl,
    linkText: isOpen ? 'Answer in the console' : 'Open in the console',
  };
}

/**
 * Many in one message, in our words alone: what one requester wrote must not keep the message about the
 * others from its readers, as the mail server does that takes it for spam.
 */
function digestOf(
  event: ChannelEvent,
  approval: Approval,
  { spokenFor, listUrl }: { readonly spokenFor: SpokenFor; readonly listUrl: string },
): Notice {
  const count = spokenFor.count + 1;
  const isOpen = event === 'approval.requested';
  const [approved, denied] = [ending(approval).startsWith('Approved'), approval.status === 'denied'];
  const counts = {
    approved: spokenFor.approved + Number(approved),
    denied: spokenFor.denied + Number(denied),
  };
  const many = (number: number): string | null => (number === 0 ? null : String(number));
  return {
    headline: isOpen ? 'Approvals needed' : 'Approvals ended',
    subject: `${count} requests ${isOpen ? 'wait' : 'ended'}`,
    facts: isOpen
      ? lines([
          [
            'First to expire',
            minuteText(Math.min(spokenFor.firstExpiresAtMs, approval.expiresAtMs) as UnixMillis),
          ],
        ])
      : lines([
          ['Approved', many(counts.approved)],
          ['Denied', many(counts.denied)],
          ['Expired without an answer', many(count - counts.approved - counts.denied)],
        ]),
    said: [],
    url: listUrl,
    linkText: isOpen ? 'Answer in the console' : 'Open in the console',
  };
}

/** Never "denied" for what has expired: no person said no. */
function ending({ status, resolvedAtMs }: Approval): string {
  switch (status) {
    case 'approved':
    case 'used':
      return 'Approved';
    case 'denied':
      return 'Denied';
    default:
      return resolvedAtMs === null ? 'Expired without an answer' : 'Approved, then expired without use';
  }
}

export const lines = (pairs: readonly (readonly [string, string | null])[]): readonly Line[] =>
  pairs.flatMap(([label, value]) =>
    value === null ? [] : [{ label: oneLine(label), value: oneLine(value) }],
  );

/** Texts of the API hold none of these characters; text that came here in another way may. */
const oneLine = (text: string): string => text.replace(misleadingCharacter, ' ').toWellFormed();

/** At least two decimals, and as many as there are. */
function usdText(amount: MicroUsd): string {
  const [whole = '0', decimals = ''] = renderUsd(amount).toFixed(6).split('.');
  return `${whole}.${decimals.replace(/0{1,4}$/, '')} USD`;
}

/** `2026-11-20 10:41 UTC` */
export const minuteText = (timeMs: UnixMillis): string =>
  `${renderTime(timeMs).slice(0, 16).replace('T', ' ')} UTC`;
