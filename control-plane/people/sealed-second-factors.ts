import type { UserId } from '../../shared/model/ids.ts';
import { countOf, type SealedPlace } from '../master-key/sealed-place.ts';
import { totpSealContext } from './second-factor.ts';

/** Secrets of the one-time codes. */
export const sealedSecondFactors: SealedPlace = {
  name: 'secrets of one-time codes',
  findOthers: async (sql, { prefix, after, limit }) => {
    const rows = await sql<{ userId: UserId; sealed: string }[]>`
      SELECT user_id AS "userId", totp_sealed AS sealed FROM users
      WHERE NOT starts_with(totp_sealed, ${prefix}) AND user_id > ${after?.[0] ?? ''}
      ORDER BY user_id LIMIT ${limit}`;
    return rows.map(({ userId, sealed }) => ({
      key: [userId],
      replace: async (reseal) => {
        const by = reseal(sealed, totpSealContext(userId));
        const { count } = await sql`
          UPDATE users SET totp_sealed = ${by} WHERE user_id = ${userId} AND totp_sealed = ${sealed}`;
        return count > 0;
      },
    }));
  },
  count: async (sql, prefix) =>
    countOf(await sql`SELECT count(*) AS count FROM users WHERE starts_with(totp_sealed, ${prefix})`),
};
