import type { AccountId, ChannelId, GateId } from './ids.ts';
import type { Mode } from './mode.ts';
import { hourMs, minuteMs, secondMs, type UnixMillis } from './time.ts';

/** `slack`: an incoming webhook of Slack or a compatible service. `webhook`: the signed event as JSON. */
export const channelKinds = ['slack', 'email', 'webhook'] as const;
export type ChannelKind = (typeof channelKinds)[number];

/** What a channel is told of: requests that wait for a person, and how they ended. */
export const channelEvents = ['approval.requested', 'approval.resolved'] as const;
export type ChannelEvent = (typeof channelEvents)[number];

export const channelStatuses = ['enabled', 'disabled'] as const;
export type ChannelStatus = (typeof channelStatuses)[number];

/**
 * Why nothing is sent: `owner` disabled it; `gone`: the other side said that the address is no more;
 * `failing`: no attempt succeeded for `outboxLimits.failingMsMax`.
 */
export const channelDisablingReasons = ['owner', 'gone', 'failing'] as const;
export type ChannelDisablingReason = (typeof channelDisablingReasons)[number];

/** Why an attempt failed (docs/channels.md). */
export const channelFaults = [
  'timeout',
  'unreachable',
  'closed',
  'target_refused',
  'bad_answer',
  'mail_not_configured',
  'tls_missing',
  'tls_failed',
  'login_refused',
  'sender_refused',
  'recipient_refused',
  'message_refused',
] as const;
export type ChannelFault = (typeof channelFaults)[number];

export interface ChannelError {
  readonly code: ChannelFault;
  /** From the other side, without apparent secrets, or in our words. */
  readonly detail: string;
}

/**
 * Where people are told of approvals (contract §8). Its target is stored sealed: the URL of a Slack webhook
 * is all that it takes to write there.
 */
export interface Channel {
  readonly channelId: ChannelId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly name: string;
  readonly kind: ChannelKind;
  /** Null: of the account, for all gates without enabled channels of their own. */
  readonly gateId: GateId | null;
  /** Of a URL its host and last characters; an e-mail address as it is. */
  readonly shownTarget: string;
  /** `sha256:` + hex: shows whether two targets are the same. */
  readonly targetHash: string;
  /** How long an approval must have been pending before this channel is told. */
  readonly afterMs: number;
  readonly events: readonly ChannelEvent[];
  readonly status: ChannelStatus;
  /** Null while it is enabled. */
  readonly disabledReason: ChannelDisablingReason | null;
  readonly failingSinceMs: UnixMillis | null;
  /** Attempts since the last success. */
  readonly failures: number;
  /** Null: the last attempt succeeded, or there was none. */
  readonly lastError: (ChannelError & { readonly atMs: UnixMillis }) | null;
  readonly lastSentAtMs: UnixMillis | null;
  readonly version: number;
  readonly createdAtMs: UnixMillis;
  readonly updatedAtMs: UnixMillis;
}

/** Pauses before the first attempts. After these a message is tried every ten minutes, later every hour. */
const firstPausesMs: readonly number[] = [0, 5 * secondMs, 30 * secondMs, 2 * minuteMs, 5 * minuteMs];
/** Six hours of ten minutes, then up to three days of hours. Most approvals have ended long before. */
const frequentTriesMax = firstPausesMs.length + 36;
const triesMax = frequentTriesMax + 66;

/** The pause before attempt number `tries + 1`; null: there is no further one. */
export function channelPauseMs(tries: number): number | null {
  const first = firstPausesMs[tries];
  if (first !== undefined) return first;
  if (tries < frequentTriesMax) return 10 * minuteMs;
  return tries < triesMax ? hourMs : null;
}
