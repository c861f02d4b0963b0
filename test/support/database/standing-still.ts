import type { Database, Transaction } from '../../../control-plane/base/database.ts';

/**
 * A pool whose transactions stand still after the first statement with one of these texts, or before it,
 * with what they have locked, until `goOn`. `stood`: what PostgreSQL bounds there, as it says it.
 */
export function standingStill(
  sql: Database,
  texts: readonly string[],
  { isBefore = false }: { readonly isBefore?: boolean } = {},
) {
  const stood: { pause: string; lock: string }[] = [];
  let goOn: () => void = () => undefined;
  const stop = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const stands = (tx: Transaction): Transaction => {
    let hasStood = false;
    return new Proxy(tx, {
      apply: (target, self, args) => {
        const query = () => Reflect.apply(target, self, args);
        const text = String(args[0]);
        if (hasStood || !texts.some((each) => text.includes(each))) return query();
        const stand = async (): Promise<void> => {
          hasStood = true;
          const [bounds] = await target<{ pause: string; lock: string }[]>`
            SELECT current_setting('idle_in_transaction_session_timeout') AS pause,
              current_setting('lock_timeout') AS lock`;
          if (bounds !== undefined) stood.push(bounds);
          await stop;
        };
        if (isBefore) return stand().then(query);
        return query().then(async (rows: unknown) => {
          await stand();
          return rows;
        });
      },
    });
  };
  type Work = (tx: Transaction) => Promise<unknown>;
  const begin = (...args: readonly [Work] | readonly [string, Work]): Promise<unknown> => {
    const [modes, work] = args.length === 1 ? ['', args[0]] : args;
    return sql.begin(modes, (tx) => work(stands(tx)));
  };
  return {
    sql: new Proxy(sql, {
      get: (target, name) => (name === 'begin' ? begin : Reflect.get(target, name)),
    }),
    stood,
    goOn,
  };
}
