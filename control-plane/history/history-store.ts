import type { AccountId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { ToldHistory } from '../../shared/wire/sync/receipt.ts';
import { type FeedId, globalFeed } from '../../shared/wire/sync/sync.ts';
import type { FederationInFeed, SealedEntry } from '../../shared/wire/sync/sync-schema.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { historyLimits } from './limits.ts';

/** The name of this history, and of those that it goes on from, newest first. */
export interface Generations {
  readonly current: string;
  readonly number: number;
  readonly earlier: readonly string[];
}

/** What sidecars were told and the database lacks, in numbers. */
export interface Missing {
  /** Revisions of feeds. */
  readonly changes: number;
  readonly chains: number;
  /** Records at the ends of these chains. */
  readonly records: number;
  /** At the end of the transparency log, as far as its witnesses have shown. */
  readonly entries: number;
}

/** A place that was told and is not in the database. `lost`: how far it is behind the end; at least 1. */
interface Lost {
  readonly id: string;
  readonly place: number;
  readonly mark: string;
  readonly lost: number;
}

export interface Losses {
  readonly heads: readonly Lost[];
  readonly places: readonly Lost[];
}

export async function readGenerations(sql: Database | Transaction): Promise<Generations> {
  const rows = await sql<{ number: number; generation: string }[]>`
    SELECT number, generation FROM generations ORDER BY number DESC LIMIT ${historyLimits.earlierGenerationsMax + 1}`;
  const [current, ...earlier] = rows;
  if (current === undefined) throw new Error('a database has a generation from its migration on');
  return {
    current: current.generation,
    number: current.number,
    earlier: earlier.map(({ generation }) => generation),
  };
}

/** Null: nothing is missing, as far as sidecars have shown. */
export async function readMissing(sql: Database | Transaction): Promise<Missing | null> {
  const [row] = await sql<(Missing & { heads: number })[]>`
    WITH newest AS (SELECT max(number) AS number FROM generations),
      head AS (SELECT count(*) AS heads, coalesce(sum(lost), 0)::bigint AS changes FROM known_heads, newest
        WHERE in_generation = newest.number),
      place AS (SELECT count(*) AS chains, coalesce(sum(lost), 0)::bigint AS records FROM known_places, newest
        WHERE in_generation = newest.number),
      tree AS (SELECT coalesce(max(lost), 0) AS entries FROM known_trees, newest
        WHERE in_generation = newest.number)
    SELECT heads, changes, chains, records, entries FROM head, place, tree`;
  if (row === undefined || row.heads + row.chains + row.entries === 0) return null;
  const { heads, ...missing } = row;
  return missing;
}

/** The newest generation, and whether anything may be missing in it. */
export const askForNews = (sql: Database) => sql`
  SELECT json_build_array(max(number), EXISTS (SELECT FROM known_heads) OR EXISTS (SELECT FROM known_places)
    OR EXISTS (SELECT FROM known_trees)) FROM generations`;

/** What of this the database lacks, or has otherwise. */
export async function findLosses(
  sql: Database,
  {
    accountId,
    told,
    entries,
    isSigned,
  }: {
    readonly accountId: AccountId;
    readonly told: readonly ToldHistory[];
    /** Of feeds of the account; they count only where they are signed. */
    readonly entries: readonly SealedEntry[];
    readonly isSigned: (entry: SealedEntry) => boolean;
  },
): Promise<Losses> {
  const heads = told.flatMap((each) =>
    'feeds' in each
      ? [[accountId, ...each.feeds.account] as const, [globalFeed, ...each.feeds.global] as const]
      : [],
  );
  const places = told.flatMap((each) => ('chains' in each ? each.chains : []));
  const signed = await lostEntries(sql, entries);
  const lost = signed.filter(({ id, place }) =>
    entries.some((entry) => entry.feed_id === id && entry.revision === place && isSigned(entry)),
  );
  return { heads: [...(await lostHeads(sql, heads)), ...lost], places: await lostPlaces(sql, places) };
}

type Place = readonly [id: string, place: number, mark: string];

async function lostHeads(sql: Database, told: readonly Place[]): Promise<readonly Lost[]> {
  if (told.length === 0) return [];
  // A trimmed change says nothing; the newest one of a feed is never trimmed.
  return sql<Lost[]>`
    SELECT told.id, told.place, told.mark, greatest(told.place - feeds.revision, 1) AS lost
    FROM unnest(${ids(told)}::text[], ${numbers(told)}::bigint[], ${marks(told)}::text[]) AS told (id, place, mark)
    JOIN feeds ON feeds.feed_id = told.id
    LEFT JOIN changes ON changes.feed_id = told.id AND changes.revision = told.place
    WHERE told.place > feeds.revision OR changes.signature <> told.mark`;
}

/**
 * An entry does not name its generation. Up to where an earlier one was known when it was recovered, all is
 * settled.
 */
async function lostEntries(sql: Database, entries: readonly SealedEntry[]): Promise<readonly Lost[]> {
  const lost = await lostHeads(
    sql,
    entries.map(({ feed_id, revision, signature }) => [feed_id, revision, signature] as const),
  );
  if (lost.length === 0) return [];
  const settled = await sql<{ feed_id: string; revision: number }[]>`
    SELECT feed_id, max(revision) AS revision FROM known_heads
    WHERE in_generation < (SELECT max(number) FROM generations) AND feed_id = ANY(${lost.map(({ id }) => id)}::text[])
    GROUP BY feed_id`;
  return lost.filter(
    ({ id, place }) => !settled.some(({ feed_id, revision }) => feed_id === id && place <= revision),
  );
}

async function lostPlaces(sql: Database, told: readonly Place[]): Promise<readonly Lost[]> {
  if (told.length === 0) return [];
  return sql<Lost[]>`
    SELECT told.id, told.place, told.mark, greatest(told.place - coalesce(chains.sequence, 0), 1) AS lost
    FROM unnest(${ids(told)}::text[], ${numbers(told)}::bigint[], ${marks(told)}::text[]) AS told (id, place, mark)
    LEFT JOIN chains ON chains.chain_id = told.id
    -- The hash of a record stands in the one after it, or in the head of its chain.
    LEFT JOIN records AS next ON next.chain = chains.number AND next.sequence = told.place + 1
      AND chains.sequence > told.place
    WHERE coalesce(chains.sequence, 0) < told.place
      OR CASE chains.sequence WHEN told.place THEN chains.hash
        ELSE 'sha256:' || encode(next.previous_hash, 'hex') END <> told.mark`;
}

const ids = (told: readonly Place[]) => told.map(([id]) => id);
const numbers = (told: readonly Place[]) => told.map(([, place]) => place);
const marks = (told: readonly Place[]) => told.map(([, , mark]) => mark);

/** Of several, the furthest place of each feed and chain is kept. */
export async function noteLosses(tx: Transaction, number: number, { heads, places }: Losses): Promise<void> {
  const newestOf = (losses: readonly Lost[]): Lost[] => {
    const newest = new Map<string, Lost>();
    for (const each of losses) {
      const other = newest.get(each.id);
      if (other === undefined || other.place < each.place) newest.set(each.id, each);
    }
    // In one order, so that two reports cannot deadlock.
    return [...newest.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  };
  const columns = (losses: readonly Lost[]) => tx`
    unnest(${losses.map(({ id }) => id)}::text[], ${losses.map(({ place }) => place)}::bigint[],
      ${losses.map(({ mark }) => mark)}::text[], ${losses.map(({ lost }) => lost)}::bigint[]) AS new (id, place, mark, lost)`;
  const lostHeadRows = newestOf(heads);
  if (lostHeadRows.length > 0) {
    await tx`
      INSERT INTO known_heads AS known (in_generation, feed_id, revision, mark, lost, noticed_at_ms)
      SELECT ${number}, id, place, mark, lost, ${databaseNowMs(tx)} FROM ${columns(lostHeadRows)}
      ON CONFLICT (in_generation, feed_id) DO UPDATE SET revision = excluded.revision, mark = excluded.mark,
        lost = greatest(known.lost, excluded.lost)
      WHERE known.revision < excluded.revision`;
  }
  const lostPlaceRows = newestOf(places);
  if (lostPlaceRows.length > 0) {
    await tx`
      INSERT INTO known_places AS known (in_generation, chain_id, sequence, hash, lost, noticed_at_ms)
      SELECT ${number}, id, place, mark, lost, ${databaseNowMs(tx)} FROM ${columns(lostPlaceRows)}
      ON CONFLICT (in_generation, chain_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash,
        lost = greatest(known.lost, excluded.lost)
      WHERE known.sequence < excluded.sequence`;
  }
}

/** Something that was taken away, by what a sidecar knows. */
export interface KnownEnd {
  readonly kind:
    | 'passport'
    | 'owner'
    | 'unnamed'
    | 'issuer'
    | 'federation'
    | 'account'
    | 'gate'
    | 'api_key'
    | 'gate_policy';
  /** Of an owner of passports: as `ownerName`. Of what the database has no name of: its digest. */
  readonly id: string;
  readonly accountId: AccountId;
  readonly mode: Mode | null;
  readonly standing: 'suspended' | 'revoked' | 'deleted' | 'changed';
  /** What it was; null where the standing says all. */
  readonly detail: FederationInFeed | null;
  /** See PassportStandingGroup; null of all but `unnamed`. */
  readonly expiredByDay: number | null;
}

/** Of two standings the one that takes more away is kept, and of two states of an issuer the later one. */
export async function noteKnownEnds(
  tx: Transaction,
  number: number,
  ends: readonly KnownEnd[],
): Promise<void> {
  if (ends.length === 0) return;
  await tx`
    INSERT INTO known_ends AS known (in_generation, kind, id, account_id, mode, standing, detail, expired_by_day)
    SELECT ${number}, kind, id, account_id, mode, standing, detail::jsonb, expired_by_day FROM unnest(${ends.map(({ kind }) => kind)}::text[], ${ends.map(({ id }) => id)}::text[],
      ${ends.map(({ accountId }) => accountId)}::text[], ${ends.map(({ mode }) => mode)}::text[],
      ${ends.map(({ standing }) => standing)}::text[],
      ${ends.map(({ detail }) => (detail === null ? null : JSON.stringify(detail)))}::text[],
      ${ends.map(({ expiredByDay }) => expiredByDay)}::bigint[])
      AS new (kind, id, account_id, mode, standing, detail, expired_by_day)
    ON CONFLICT (in_generation, kind, id) DO UPDATE SET standing = excluded.standing, detail = excluded.detail
    WHERE known.standing = 'suspended'
      OR (excluded.detail->>'version')::bigint > (known.detail->>'version')::bigint`;
}

export const readKnownEnds = (sql: Database | Transaction) =>
  sql<KnownEnd[]>`
    SELECT kind, id, account_id AS "accountId", mode, standing, detail,
      expired_by_day AS "expiredByDay" FROM known_ends
    WHERE in_generation = (SELECT max(number) FROM generations) ORDER BY kind, id`;

/** A chain with places that are lost. */
export interface LostChain {
  readonly chainId: string;
  /** Whose it is; null: the database does not know the chain. */
  readonly accountId: AccountId | null;
  readonly mode: Mode | null;
  /** Of the chain here: what follows it up to `lastPlace` is lost. */
  readonly afterPlace: number;
  readonly lastPlace: number;
  readonly lastHash: string;
  readonly lost: number;
}

export const readLostChains = (sql: Database | Transaction) =>
  sql<LostChain[]>`
    SELECT known.chain_id AS "chainId", chains.account_id AS "accountId", chains.mode,
      coalesce(chains.sequence, 0) AS "afterPlace", known.sequence AS "lastPlace", known.hash AS "lastHash", lost
    FROM known_places AS known LEFT JOIN chains ON chains.chain_id = known.chain_id COLLATE "default"
    WHERE in_generation = (SELECT max(number) FROM generations) ORDER BY known.chain_id`;

/** A chain that the last recovery stated places of as lost. */
export interface HandedIn {
  readonly chainId: string;
  readonly lost: number;
  /** Records of decisions from before the recovery that were appended since. */
  readonly handedIn: number;
}

export const readHandedIn = (sql: Database | Transaction) =>
  sql<HandedIn[]>`
    WITH newest AS (SELECT number, begun_at_ms FROM generations ORDER BY number DESC LIMIT 1)
    SELECT known.chain_id AS "chainId", known.lost,
      least(known.lost, (SELECT count(*) FROM records WHERE records.chain = chains.number
        AND records.sequence > known.sequence AND records.sequence <= known.sequence + ${historyLimits.handedInMax}
        AND records.timestamp_ms < newest.begun_at_ms))::bigint AS "handedIn"
    FROM newest JOIN known_places AS known ON known.in_generation = newest.number - 1
    LEFT JOIN chains ON chains.chain_id = known.chain_id COLLATE "default"
    ORDER BY known.chain_id LIMIT ${historyLimits.handedInMax}`;

/** The furthest revision of each feed that is known and not here. */
export const readKnownHeads = (tx: Transaction) =>
  tx<{ feedId: FeedId; revision: number; lost: number }[]>`
    SELECT feed_id AS "feedId", revision, lost FROM known_heads
    WHERE in_generation = (SELECT max(number) FROM generations) ORDER BY feed_id`;

/** What is known by now is about the generation before. */
export async function beginGeneration(tx: Transaction, generation: string): Promise<void> {
  await tx`
    INSERT INTO generations (number, generation, begun_at_ms)
    SELECT max(number) + 1, ${generation}, ${databaseNowMs(tx)} FROM generations`;
}

/** Reports and recoveries go one after the other from here to the end of the transaction. */
export async function lockGeneration(tx: Transaction): Promise<Generations> {
  await tx`SELECT FROM generations WHERE number = 1 FOR UPDATE`;
  return readGenerations(tx);
}
