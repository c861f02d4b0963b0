import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { type FeedId, type FeedPosition, globalFeed, type Position } from '../../shared/wire/sync/sync.ts';
import type { ChangesAnswer } from '../../shared/wire/sync/sync-schema.ts';
import type { RecordFormDeps } from '../base/record-form.ts';
import { historyOf } from '../history/history.ts';
import { feedsReceipt } from '../history/receipts.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { subscribeToHints } from './change-hints.ts';
import { readEntries, readHeads } from './feed-store.ts';
import { heardHeadsOf } from './heard-heads.ts';
import { syncLimits } from './limits.ts';

type ReadDeps = Pick<SigningDeps, 'sql' | 'clock' | 'bus' | 'replicaId' | 'sealer'> & RecordFormDeps;

interface Reader {
  readonly accountId: AccountId;
  readonly after: Position;
}

/**
 * The entries a sidecar has not applied yet, waiting up to `waitMs` for the first. Heads are those of the
 * database, by the pulse or by a look of its own, so a lost push only costs the rest of the wait. Global
 * entries come before the account's, each feed in order: the global feed announces a new sync key that may
 * have signed entries of the other.
 */
export async function readChanges(
  deps: ReadDeps,
  reader: Reader & { readonly waitMs: number },
): Promise<ChangesAnswer> {
  const askedAtMs = deps.clock.monotonic();
  // Subscribe before the first query, so that no change is missed in between.
  const news = reader.waitMs === 0 ? null : await subscribeToHints(deps.bus, reader);
  const waitedMs = () => deps.clock.monotonic() - askedAtMs;
  const { listeners } = heardHeadsOf(deps.sql);
  const onPulse = () => {
    // A pull that has just come would come again at once.
    if (waitedMs() >= syncLimits.pulseWaitMsMin) news?.end();
  };
  listeners.add(onPulse);
  try {
    const known = news === null ? null : lookAtPulse(deps, reader, 2 * limits.heartbeatIntervalMs);
    let answer = known ?? (await look(deps, reader));
    if (news !== null && hasNothing(answer)) {
      await news.wait(reader.waitMs - waitedMs());
      const atPulse = news.isHinted ? null : lookAtPulse(deps, reader, syncLimits.pulseWaitMsMin);
      answer = atPulse ?? (await look(deps, reader));
    }
    const { current: generation } = await historyOf(deps.sql).generations();
    const answeredAtMs = deps.clock.monotonic();
    return {
      ...answer.changes,
      heads_age_ms: answeredAtMs - answer.headsAtMs,
      held_ms: answeredAtMs - askedAtMs,
      replica: deps.replicaId,
      now_ms: deps.clock.now(),
      record_form: deps.appending.recordForm(),
      generation,
      ...(!answer.changes.snapshot_needed && {
        receipt: feedsReceipt(
          deps.sealer,
          { accountId: reader.accountId, generation },
          positionAfter(reader, answer.changes.entries),
        ),
      }),
    };
  } finally {
    listeners.delete(onPulse);
    await news?.stop();
  }
}

interface Look {
  readonly changes: Omit<
    ChangesAnswer,
    'heads_age_ms' | 'held_ms' | 'replica' | 'now_ms' | 'record_form' | 'generation' | 'receipt'
  >;
  /** Taken before the heads were read, so they are at most this old. */
  readonly headsAtMs: number;
}

/** Where the reader is once it has applied these entries. */
function positionAfter({ accountId, after }: Reader, entries: ChangesAnswer['entries']): Position {
  const behind = (feedId: FeedId, place: FeedPosition): FeedPosition => {
    const last = entries.findLast(({ feed_id }) => feed_id === feedId);
    return last === undefined ? place : { revision: last.revision, mark: last.signature };
  };
  return { account: behind(accountId, after.account), global: behind(globalFeed, after.global) };
}

/** Null unless the reader is at both heads, and the pulse has read them so short a time ago. */
function lookAtPulse({ sql, clock }: ReadDeps, { accountId, after }: Reader, ageMsMax: number): Look | null {
  const headsAtMs = heardHeadsOf(sql).readAtMs([
    [accountId, after.account],
    [globalFeed, after.global],
  ]);
  if (headsAtMs === null || clock.monotonic() - headsAtMs > ageMsMax) return null;
  const heads = { account_head: after.account.revision, global_head: after.global.revision };
  return { changes: { entries: [], ...heads, snapshot_needed: false }, headsAtMs };
}

const hasNothing = ({ changes }: Look): boolean => changes.entries.length === 0 && !changes.snapshot_needed;

async function look({ sql, clock }: ReadDeps, { accountId, after }: Reader): Promise<Look> {
  const headsAtMs = clock.monotonic();
  const heads = await readHeads(sql, accountId);
  const ofGlobal = await readEntries(sql, {
    feedId: globalFeed,
    after: after.global,
    head: heads.global,
    countMax: syncLimits.changesPerAnswerMax,
  });
  const ofAccount = await readEntries(sql, {
    feedId: accountId,
    after: after.account,
    head: heads.account,
    countMax: syncLimits.changesPerAnswerMax - (ofGlobal?.length ?? 0),
  });
  const entries = ofAccount === null || ofGlobal === null ? null : [...ofGlobal, ...ofAccount];
  return {
    changes: {
      entries: entries ?? [],
      account_head: heads.account,
      global_head: heads.global,
      snapshot_needed: entries === null,
    },
    headsAtMs,
  };
}
