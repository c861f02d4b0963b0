import type { Bus } from '../../shared/bus/bus.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { type FeedId, feedChannel, globalFeed, type Position } from '../../shared/wire/sync/sync.ts';
import { parseFeedMessage } from '../../shared/wire/sync/sync-schema.ts';

/** A hint that the sidecar is behind: only a reason to query the database. */
export interface ChangeHints {
  /** Resolves on a hint, including one from before the call, or on timeout. */
  wait(timeMs: number): Promise<void>;
  /** Ends the wait without a hint. */
  end(): void;
  readonly isHinted: boolean;
  stop(): Promise<void>;
}

/** Subscribes to the entries and heartbeats of both feeds of an account. A hint needs no signature check. */
export async function subscribeToHints(
  bus: Bus,
  known: { readonly accountId: AccountId; readonly after: Position },
): Promise<ChangeHints> {
  const wakeup = makeWakeup();
  let isHinted = false;
  const listener = (feedId: FeedId, after: number) => (text: string) => {
    const message = parseFeedMessage(text);
    if (message === null || message.feed_id !== feedId) return;
    if ((message.kind === 'heartbeat' ? message.head : message.revision) <= after) return;
    isHinted = true;
    wakeup.wake();
  };
  const subscriptions = await Promise.all([
    bus.subscribe(feedChannel(known.accountId), listener(known.accountId, known.after.account.revision)),
    bus.subscribe(feedChannel(globalFeed), listener(globalFeed, known.after.global.revision)),
  ]);
  return {
    wait: (timeMs) => wakeup.sleep(timeMs),
    end: wakeup.wake,
    get isHinted() {
      return isHinted;
    },
    stop: async () => {
      await Promise.all(subscriptions.map((unsubscribe) => unsubscribe()));
    },
  };
}
