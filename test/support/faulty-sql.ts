import type { Database } from '../../control-plane/deps.ts';

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
