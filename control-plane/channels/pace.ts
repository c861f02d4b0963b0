import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { channelsLimits } from './limits.ts';

/*
 * People get few messages however many approvals begin or end, and in whatever order they come: a channel for
 * people may have `channelBurstMax` messages at once and one more every `channelMessageEveryMs` (the leaky
 * bucket of GCRA). What may not be sent yet waits, and the next message speaks for it. The allowance is kept
 * in the row of the channel, so it holds over all replicas. Webhooks are read by programs and get everything.
 */

const burst = channelsLimits.channelBurstMax;
const everyMs = channelsLimits.channelMessageEveryMs;

/** `channels.pace_at_ms` of `endpoint`. Later than it can be: a clock went back, and it says nothing. */
const paceAt = (sql: Database | Transaction, nowMs: UnixMillis) => sql`
  greatest(${nowMs}::bigint,
    CASE WHEN endpoint.pace_at_ms <= ${nowMs + burst * everyMs}::bigint THEN endpoint.pace_at_ms ELSE 0 END)`;

/** How many messages the channel `endpoint` for people may have now. */
export const allowanceOf = (sql: Database | Transaction, nowMs: UnixMillis) => sql`
  ((${nowMs + burst * everyMs}::bigint - ${paceAt(sql, nowMs)}) / ${everyMs}::bigint)`;

/** The new `pace_at_ms` of the channel `endpoint` when it has used so many. */
export const paceAfter = (
  sql: Database | Transaction,
  nowMs: UnixMillis,
  used: ReturnType<Database | Transaction>,
) => sql`${paceAt(sql, nowMs)} + ${everyMs}::bigint * ${used}`;
