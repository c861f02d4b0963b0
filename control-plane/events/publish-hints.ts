import type { Bus } from '../../shared/bus/bus.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { eventsLimits } from './limits.ts';
import type { Hint } from './note-hints.ts';

/** Bus channel of an account's hints, for all control planes. */
export const hintChannel = (accountId: AccountId): string => `agent-trust:hints:${accountId}`;

/** A hint on the bus: the channel names the account. */
export type TravellingHint = Pick<Hint, 'mode' | 'type' | 'id'>;

/** Publishes hints together, each once, `eventsLimits.publishIntervalMs` after the first of them. */
export function hintPublisher(bus: Pick<Bus, 'publish'>): (hints: readonly Hint[]) => void {
  let waiting = new Map<AccountId, Map<string, TravellingHint>>();

  const publish = (): void => {
    const due = waiting;
    waiting = new Map();
    for (const [accountId, hints] of due)
      bus.publish(hintChannel(accountId), JSON.stringify([...hints.values()]));
  };

  return (hints) => {
    if (waiting.size === 0) setTimeout(publish, eventsLimits.publishIntervalMs).unref();
    for (const { accountId, mode, type, id } of hints) {
      const own = waiting.get(accountId) ?? new Map<string, TravellingHint>();
      if (own.size === 0 && waiting.size >= eventsLimits.publishedAccountsMax) continue;
      waiting.set(accountId, own);
      const named = own.size < eventsLimits.publishedPerAccountMax ? id : null;
      own.set(`${mode} ${type} ${named}`, { mode, type, id: named });
    }
  };
}
