import { ApiError } from '../../shared/errors/api-error.ts';
import type { Approval } from '../../shared/model/approval.ts';
import type { ChannelError } from '../../shared/model/channel.ts';
import type { ApprovalId, ChannelId, GateId, PassportId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { hourMs, type UnixMillis } from '../../shared/model/time.ts';
import { consoleUrl } from '../../shared/wire/api/console-url.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { lockChannel } from './channel-store.ts';
import { openTarget } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';
import { sendNotice } from './send-notice.ts';

export interface TestResult {
  readonly error: ChannelError | null;
  readonly latencyMs: number;
}

/**
 * Sends a sample once, now, and answers what came of it, so that a mistake shows where it was made. The
 * health of the channel stays as it is. A disabled channel can be tested, too.
 */
export class ChannelTests {
  #underWay = 0;

  async run(deps: ChannelDeps, caller: Caller, channelId: ChannelId): Promise<TestResult> {
    if (this.#underWay >= channelsLimits.channelTestsAtOnceMax) throw new ApiError('overloaded');
    this.#underWay += 1;
    try {
      return await sendTest(deps, caller, channelId);
    } finally {
      this.#underWay -= 1;
    }
  }
}

async function sendTest(deps: ChannelDeps, caller: Caller, channelId: ChannelId): Promise<TestResult> {
  // The transaction is over before anything is sent: the other side may take its time.
  const { channel, sealedTarget } = await administer(deps, caller, async (tx) => {
    const locked = await lockChannel(tx, caller, channelId);
    if (locked === null) throw new ApiError('channel_not_found');
    const { kind, name } = locked.channel;
    return {
      result: locked,
      audited: {
        operation: 'testChannel',
        target: channelId,
        before: null,
        after: { channel_id: channelId, kind, name },
      },
    };
  });
  const startedAt = deps.clock.monotonic();
  const nowMs = deps.clock.now();
  const { fault: error } = await sendNotice(
    deps,
    {
      kind: channel.kind,
      ...openTarget(deps.sealer, channelId, sealedTarget),
      messageId: `${channelId}.test.${nowMs}`,
      threadId: null,
      facts: {
        event: 'approval.requested',
        approval: sample(nowMs),
        spokenFor: null,
        gateName: 'Sample gate',
        agentName: null,
        resolverName: null,
        approvalUrl: consoleUrl(deps.baseUrl, 'channels'),
        listUrl: null,
      },
    },
    new AbortController().signal,
  );
  const latencyMs = Math.max(0, Math.round(deps.clock.monotonic() - startedAt));
  return { error, latencyMs };
}

/** With ids of nothing. */
const sample = (nowMs: UnixMillis): Approval => ({
  approvalId: 'appr_00000000000000000000000000' as ApprovalId,
  status: 'pending',
  passportId: 'pass_00000000000000000000000000' as PassportId,
  agentId: 'sample-agent',
  user: null,
  gateId: 'gate_00000000000000000000000000' as GateId,
  gateVersion: 1,
  requestHash: `sha256:${'0'.repeat(64)}`,
  permissionKey: null,
  amountMicroUsd: 250_000_000 as MicroUsd,
  display: {
    title: 'A test of this channel: nothing waits for an answer',
    lines: [{ label: 'Supplier', value: 'Sample Furniture' }],
    url: null,
  },
  conditions: null,
  createdAtMs: nowMs,
  expiresAtMs: (nowMs + hourMs) as UnixMillis,
  resolvedAtMs: null,
  resolvedBy: null,
  note: null,
  answers: [],
});
