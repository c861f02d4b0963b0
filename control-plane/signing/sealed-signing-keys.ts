import { countOf, type SealedPlace } from '../master-key/sealed-place.ts';
import { sealContext } from './sealed-signing-key.ts';

/** Private halves of signing keys. */
const sealedKeysOf = (name: string, table: 'signing_keys' | 'log_keys'): SealedPlace => ({
  name,
  findOthers: async (sql, { prefix, after, limit }) => {
    const rows = await sql<{ kid: string; sealed: string }[]>`
      SELECT kid, sealed_private_key AS sealed FROM ${sql(table)}
      WHERE NOT starts_with(sealed_private_key, ${prefix}) AND kid > ${after?.[0] ?? ''}
      ORDER BY kid LIMIT ${limit}`;
    return rows.map(({ kid, sealed }) => ({
      key: [kid],
      replace: async (reseal) => {
        const by = reseal(sealed, sealContext(kid));
        const { count } = await sql`
          UPDATE ${sql(table)} SET sealed_private_key = ${by}
          WHERE kid = ${kid} AND sealed_private_key = ${sealed}`;
        return count > 0;
      },
    }));
  },
  count: async (sql, prefix) =>
    countOf(
      await sql`SELECT count(*) AS count FROM ${sql(table)} WHERE starts_with(sealed_private_key, ${prefix})`,
    ),
});

export const sealedSigningKeys = sealedKeysOf('signing keys', 'signing_keys');
export const sealedLogKeys = sealedKeysOf('keys of the log', 'log_keys');
