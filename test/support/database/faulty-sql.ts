import type { Database, Transaction } from '../../../control-plane/base/database.ts';

/** A database that fails every statement with `fault` while there is one, before anything is sent. */
export function faultySql(): { fault: unknown; readonly wrap: (sql: Database) => Database } {
  const state = {
    fault: null as unknown,
    wrap: (sql: Database): Database =>
      new Proxy(sql, {
        apply: (target, self, args) => {
          failIfFaulty();
          return Reflect.apply(target, self, args);
        },
        get: (target, name, receiver) => {
          if (name === 'begin') failIfFaulty();
          return Reflect.get(target, name, receiver);
        },
      }),
  };
  const failIfFaulty = (): void => {
    if (state.fault !== null) throw state.fault;
  };
  return state;
}

/** An error with a code, as drivers and operating systems make them. */
export const codedError = (name: string, code: string): Error =>
  Object.assign(new Error(code), { name, code });

/**
 * The database, with the `failAt`-th statement of each transaction failing; 0: the commit, after it has
 * happened. A part of a statement counts as one before it.
 */
export function faultyDatabase(
  sql: Database,
  failAt: number,
): { readonly sql: Database; statements: number } {
  const counted = {
    statements: 0,
    sql: new Proxy(sql, {
      get: (target, name) => {
        if (name !== 'begin') return Reflect.get(target, name);
        return async (...given: unknown[]) => {
          const work = given.at(-1) as (tx: Transaction) => Promise<unknown>;
          const modes = given.length > 1 ? String(given[0]) : '';
          const result = await target.begin(modes, (tx) => work(failing(tx)));
          if (failAt === 0) throw new Error('the connection broke while the commit was answered');
          return result;
        };
      },
    }),
  };
  const failing = (tx: Transaction): Transaction =>
    new Proxy(tx, {
      apply: (target, self, args) => {
        counted.statements += 1;
        if (counted.statements === failAt) throw new Error(`statement ${failAt} failed`);
        return Reflect.apply(target, self, args);
      },
    });
  return counted;
}
