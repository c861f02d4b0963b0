import { describe, expect, it } from 'vitest';
import type { Transaction } from '../../control-plane/base/database.ts';
import { insertSettlements } from '../../control-plane/decisions/claim-settlements.ts';
import { readSettlements } from '../../control-plane/decisions/read-settlements.ts';
import type { SettlementId } from '../../control-plane/decisions/settlement.ts';
import { writeVoids } from '../../control-plane/decisions/withdraw-settlements.ts';
import type { AttestationId, SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { newSettlement } from '../support/data/new-settlement.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { useDatabase } from '../support/database/use-database.ts';

const database = useDatabase();

const nowMs = Date.now() as UnixMillis;
const readerId = 'att_reader' as AttestationId;
const other = 'side_other' as SidecarId;
const first = newSettlement('first', 'one');

/** A transaction that stays open until the test commits it. */
async function open() {
  const connection = await database.sql.reserve();
  await connection`BEGIN`;
  const commit = async () => {
    await connection`COMMIT`;
    connection.release();
  };
  return { tx: connection as unknown as Transaction, commit };
}

const waiting = () => waitingForLocks(database.sql);

/**
 * A PERMIT was read by a copy of its request, and neither is wanted: the sidecar of the copy voids a reading
 * that is committed at this moment, and that of the PERMIT voids the PERMIT. Whoever comes last has to see
 * what the other did, or the PERMIT of a client that was refused stands.
 */
describe('a PERMIT whose reading is committed while it is voided, is void with it', () => {
  const start = async () => {
    await database.sql`DELETE FROM settlements`;
    await database.sql.begin((tx) => insertSettlements(tx, [first], nowMs));
    const [reading, ofReading, ofFirst] = [await open(), await open(), await open()];
    await readSettlements(reading.tx, [{ reads: first.id, readerId, source: other }], nowMs);
    return {
      reading,
      ofReading,
      ofFirst,
      voidReading: () => writeVoids(ofReading.tx, other, [readerId], nowMs),
      voidFirst: () => writeVoids(ofFirst.tx, first.source, [first.id], nowMs),
    };
  };
  const bothAreVoid = async () =>
    expect(await database.sql`SELECT settlement_id, is_void FROM settlements ORDER BY settlement_id`).toEqual(
      [
        { settlement_id: first.id, is_void: true },
        { settlement_id: readerId, is_void: true },
      ],
    );

  it('where it is voided before the void of the reading is committed', async () => {
    const { reading, ofReading, ofFirst, voidReading, voidFirst } = await start();
    const readingVoided = voidReading();
    await until(async () => (await waiting()) === 1, { what: 'the void of the reading waits for it' });
    await reading.commit();
    expect(await readingVoided).toMatchObject([{ id: readerId }]);
    let isOver = false;
    const firstVoided = voidFirst().finally(() => {
      isOver = true;
    });
    await until(async () => isOver || (await waiting()) === 1, { what: 'the other void waits, or is done' });
    await ofReading.commit();
    expect(await firstVoided).toMatchObject([{ id: first.id }]);
    await ofFirst.commit();
    await bothAreVoid();
  });

  it('where both voids wait for the reading', async () => {
    const { reading, ofReading, ofFirst, voidReading, voidFirst } = await start();
    const voids = [voidReading().then(ofReading.commit), voidFirst().then(ofFirst.commit)];
    await until(async () => (await waiting()) === 2, { what: 'both voids wait' });
    await reading.commit();
    await Promise.all(voids);
    await bothAreVoid();
  });
});

/**
 * A batch reads one settlement, then another, while a void of both is under way; whichever order the void
 * takes, some batch comes the other way.
 */
describe('a void and a batch that reads what it voids', () => {
  const second = newSettlement('second', 'two');
  const deadlocks = async (): Promise<number> => {
    const [row] = await database.sql<{ deadlocks: number }[]>`
      SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`;
    return row?.deadlocks ?? 0;
  };
  const start = async (...settlements: ReturnType<typeof newSettlement>[]) => {
    await database.sql`DELETE FROM settlements`;
    await database.sql.begin((tx) => insertSettlements(tx, settlements, nowMs));
    return { batch: await open(), voiding: await open(), before: await deadlocks() };
  };
  const reading = (tx: Transaction, reads: SettlementId, reader: string) =>
    readSettlements(tx, [{ reads, readerId: reader as AttestationId, source: other }], nowMs);
  const isVoid = async () =>
    Object.fromEntries(
      (
        await database.sql<{ id: string; isVoid: boolean }[]>`
        SELECT settlement_id AS id, is_void AS "isVoid" FROM settlements WHERE reads IS NULL`
      ).map((row) => [row.id, row.isVoid]),
    );

  it.each([
    ['from the first to the last', first, second],
    ['from the last to the first', second, first],
  ])('do not deadlock, %s', async (_order, one, next) => {
    const { batch, voiding, before } = await start(first, second);
    await reading(batch.tx, one.id, 'att_reader_one');
    const voided = writeVoids(voiding.tx, first.source, [first.id, second.id], nowMs).finally(voiding.commit);
    await until(async () => (await waiting()) === 1, { what: 'the void waits for the batch' });
    expect(await reading(batch.tx, next.id, 'att_reader_next')).toEqual(new Set());
    await batch.commit();
    // Both stay in effect for their readers.
    expect(await voided).toEqual([]);
    expect(await isVoid()).toEqual({ [first.id]: false, [second.id]: false });
    expect(await deadlocks()).toBe(before);
  });

  it('do not deadlock where the batch has just made one of them', async () => {
    const { batch, voiding, before } = await start(first);
    await insertSettlements(batch.tx, [second], nowMs);
    const voided = writeVoids(voiding.tx, first.source, [first.id, second.id], nowMs).finally(voiding.commit);
    await until(async () => (await waiting()) === 1, { what: 'the void waits for the batch' });
    expect(await reading(batch.tx, first.id, 'att_reader_first')).toEqual(new Set());
    await batch.commit();
    expect(await voided).toMatchObject([{ id: second.id, wasTrue: true }]);
    expect(await isVoid()).toEqual({ [first.id]: false, [second.id]: true });
    expect(await deadlocks()).toBe(before);
  });

  it('and two voids of the same settlements, each is void once', async () => {
    const { batch, before } = await start(first, second);
    await reading(batch.tx, second.id, 'att_reader_one');
    const all = [first.id, second.id];
    const voids = [all, all.toReversed(), all].map((ids) =>
      database.sql.begin((tx) => writeVoids(tx, first.source, ids, nowMs)),
    );
    await until(async () => (await waiting()) === 3, { what: 'all voids wait' });
    await batch.tx`DELETE FROM settlements WHERE settlement_id = 'att_reader_one'`;
    await batch.commit();
    expect((await Promise.all(voids)).flat().map(({ id }) => id)).toEqual(expect.arrayContaining(all));
    expect((await Promise.all(voids)).flat()).toHaveLength(2);
    expect(await isVoid()).toEqual({ [first.id]: true, [second.id]: true });
    expect(await deadlocks()).toBe(before);
  });
});
