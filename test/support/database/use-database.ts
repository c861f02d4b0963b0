import type { Database } from '../../../control-plane/base/database.ts';
import { connect } from '../../../control-plane/storage/connect.ts';
import { useUntilEnd } from '../base/use.ts';
import { type TestDatabase, type TestDatabaseOptions, testDatabase } from './postgres.ts';

/** A fresh database for the tests of a file or of a `describe`, dropped after them. */
export const useDatabase = (options: TestDatabaseOptions = {}): TestDatabase =>
  useUntilEnd(
    () => testDatabase(options),
    (database) => database.drop(),
  );

/** Another pool on it, as another control plane has one. */
export const usePool = (database: TestDatabase, connectionsMax: number): Database =>
  useUntilEnd(
    async () => connect({ url: database.url, connectionsMax }),
    (pool) => pool.end({ timeout: 1 }),
  );
