import { describe, expect, it } from 'vitest';
import type { Transaction } from '../../control-plane/base/database.ts';
import { advisoryLockSeeds, advisoryLocks, lockOrder } from '../../control-plane/storage/locks.ts';
import { locksOf } from '../support/lock-watch.ts';
import { testDatabase } from '../support/postgres.ts';

const lockApproval = (tx: Transaction) => tx`SELECT FROM approvals WHERE approval_id = 'none' FOR UPDATE`;
const lockChain = (tx: Transaction) => tx`SELECT FROM chains WHERE chain_id = 'none' FOR UPDATE`;

describe('a test database', () => {
  it('is dropped with an error where a transaction took locks out of order', async () => {
    const database = await testDatabase();
    await database.sql.begin(async (tx) => {
      await lockChain(tx);
      await lockApproval(tx);
    });
    await expect(database.drop()).rejects.toThrow(/takes approvals after chains: SELECT FROM approvals/);
  });

  it('is dropped without one where all took them in order, each transaction for itself', async () => {
    const database = await testDatabase();
    await database.sql.begin(async (tx) => {
      await lockApproval(tx);
      await lockChain(tx);
      await lockApproval(tx);
    });
    await database.sql.begin(lockApproval);
    await database.sql.begin(async (tx) => {
      await tx`SAVEPOINT before`;
      await lockChain(tx);
      await tx`ROLLBACK TO SAVEPOINT before`;
      await lockApproval(tx);
    });
    await expect(database.drop()).resolves.toBeUndefined();
  });

  it('sees a nested transaction as a part of the whole', async () => {
    const database = await testDatabase();
    await database.sql.begin(async (tx) => {
      await tx.savepoint(lockChain);
      await lockApproval(tx);
    });
    await expect(database.drop()).rejects.toThrow(/takes approvals after chains/);
  });
});

describe('locksOf', () => {
  it.each([
    ['SELECT name FROM gates', [], []],
    ['SELECT FROM gates g JOIN unnest($1::text[]) AS w (id) USING (id) FOR SHARE', [], ['gates']],
    ['SELECT FROM passports p JOIN issuers i USING (issuer_id) FOR UPDATE OF p', [], ['passports']],
    ['UPDATE feeds SET revision = 1', [], ['feeds']],
    ['WITH gone AS (DELETE FROM chains) UPDATE approvals SET status = 1', [], ['chains', 'approvals']],
    ['INSERT INTO gates (gate_id) VALUES (1)', [], []],
    ['INSERT INTO chains (chain_id) VALUES (1) ON CONFLICT DO NOTHING', [], ['chains']],
    ['UPDATE templates SET name = 1', [], []],
    ['SELECT pg_advisory_xact_lock($1)', [advisoryLocks.signingKeys], ['signingKeys']],
    [
      'SELECT pg_advisory_xact_lock(hashtextextended($1, $2))',
      ['a live', advisoryLockSeeds.auditChains],
      ['auditChains'],
    ],
  ])('of %s', (text, parameters, names) => {
    expect(locksOf(text, parameters)).toEqual(names.map((name) => ({ name, mayWait: true })));
  });

  it('says that rows found with SKIP LOCKED are not waited for', () => {
    const text = `DELETE FROM approvals WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM approvals ORDER BY due_at_ms FOR UPDATE SKIP LOCKED))`;
    expect(new Set(locksOf(text, []).map(({ mayWait }) => mayWait))).toEqual(new Set([false]));
  });
});

it('places each advisory lock in the order, and nothing twice', () => {
  expect(lockOrder).toEqual(
    expect.arrayContaining([...Object.keys(advisoryLocks), ...Object.keys(advisoryLockSeeds)]),
  );
  expect(new Set(lockOrder).size).toBe(lockOrder.length);
});
