import { countOf, type SealedPlace } from '../master-key/sealed-place.ts';
import { artifactSealContext } from './artifact-store.ts';

/** Tokens, codes and grants of OAuth; expired ones too, until they are removed. */
export const sealedArtifacts: SealedPlace = {
  name: 'tokens and grants of OAuth',
  findOthers: async (sql, { prefix, after, limit }) => {
    const [afterHash = '', afterModel = ''] = after ?? [];
    const rows = await sql<{ model: string; idHash: string; sealed: string }[]>`
      SELECT model, id_hash AS "idHash", sealed_payload AS sealed FROM oauth_artifacts
      WHERE NOT starts_with(sealed_payload, ${prefix}) AND (id_hash, model) > (${afterHash}, ${afterModel})
      ORDER BY id_hash, model LIMIT ${limit}`;
    return rows.map(({ model, idHash, sealed }) => ({
      key: [idHash, model],
      replace: async (reseal) => {
        const by = reseal(sealed, artifactSealContext({ model, idHash }));
        const { count } = await sql`
          UPDATE oauth_artifacts SET sealed_payload = ${by}
          WHERE id_hash = ${idHash} AND model = ${model} AND sealed_payload = ${sealed}`;
        return count > 0;
      },
    }));
  },
  count: async (sql, prefix) =>
    countOf(
      await sql`SELECT count(*) AS count FROM oauth_artifacts WHERE starts_with(sealed_payload, ${prefix})`,
    ),
};
