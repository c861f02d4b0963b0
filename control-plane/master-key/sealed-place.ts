import type { Database, Transaction } from '../base/database.ts';
import { readReceiptKeys, receiptKeyContext, replaceReceiptKey } from './installation-store.ts';

/** Seals a text anew, for the same context. Throws SealError where it does not open. */
export type Reseal = (sealed: string, context: string) => string;

/** A row with something sealed in it. */
export interface SealedRow {
  /** Its primary key, in the order of an index. */
  readonly key: readonly string[];
  /**
   * Replaces what is sealed in it, unless that has changed meanwhile, which another replica or a request may
   * have done. False: it had.
   */
  replace(reseal: Reseal): Promise<boolean>;
}

/**
 * A column with sealed texts, described by the room that owns the table. A value that is sealed where no
 * place finds it is lost with its master key, so `test/database/master-key-change.test.ts` looks for one in
 * every column.
 */
export interface SealedPlace {
  /** In the words of an operator: what is counted. */
  readonly name: string;
  /**
   * At most `limit` rows with a text that does not begin with `prefix`, after the key `after`. Null: from
   * the first.
   */
  findOthers(
    sql: Database,
    given: { readonly prefix: string; readonly after: readonly string[] | null; readonly limit: number },
  ): Promise<readonly SealedRow[]>;
  /** Rows with a text that begins with it. */
  count(sql: Database | Transaction, prefix: string): Promise<number>;
}

/** The only row of the answer has `count`. */
export const countOf = ([row]: readonly { readonly count: number }[]): number => row?.count ?? 0;

export const receiptKeys: SealedPlace = {
  name: 'keys of receipts',
  findOthers: async (sql, { prefix, after, limit }) => {
    const rows = await readReceiptKeys(sql, after?.[0]);
    return rows
      .filter(({ value }) => !value.startsWith(prefix))
      .slice(0, limit)
      .map((row) => ({
        key: [row.keyId],
        replace: (reseal) => replaceReceiptKey(sql, row, reseal(row.value, receiptKeyContext(row.keyId))),
      }));
  },
  count: async (sql, prefix) =>
    (await readReceiptKeys(sql)).filter(({ value }) => value.startsWith(prefix)).length,
};
