import type { ChannelId } from '../../shared/model/ids.ts';
import { countOf, type SealedPlace } from '../master-key/sealed-place.ts';
import { channelSealContext } from './channel-target.ts';

/** Targets of channels, with the secrets of those that sign. */
export const sealedChannelTargets: SealedPlace = {
  name: 'channels',
  findOthers: async (sql, { prefix, after, limit }) => {
    const rows = await sql<{ channelId: ChannelId; sealed: string }[]>`
      SELECT channel_id AS "channelId", sealed_target AS sealed FROM channels
      WHERE NOT starts_with(sealed_target, ${prefix}) AND channel_id > ${after?.[0] ?? ''}
      ORDER BY channel_id LIMIT ${limit}`;
    return rows.map(({ channelId, sealed }) => ({
      key: [channelId],
      replace: async (reseal) => {
        const by = reseal(sealed, channelSealContext(channelId));
        const { count } = await sql`
          UPDATE channels SET sealed_target = ${by} WHERE channel_id = ${channelId} AND sealed_target = ${sealed}`;
        return count > 0;
      },
    }));
  },
  count: async (sql, prefix) =>
    countOf(await sql`SELECT count(*) AS count FROM channels WHERE starts_with(sealed_target, ${prefix})`),
};
