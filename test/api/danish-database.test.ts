import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { append, exportText, linesOf, newRecord, operatorOf, verifyText } from '../support/exports.ts';

/** A database that sorts text as a language does, because the machine that made it has that language. */
let api: Api;
beforeAll(async () => {
  api = await startApi({ isDanish: true });
});
afterAll(() => api.close());

it('exports chains in the order of the bytes of their ids, over several pages of chains', async () => {
  const { sql } = api.deps;
  const owner = await operatorOf(api);
  const letters = [...'abcdefghjkmnpqrstvwxyz'];
  const gateIds = letters.flatMap((one) => letters.map((other) => `gate_${(one + other).padStart(26, '0')}`));
  await sql`INSERT INTO gates (gate_id, account_id, mode, name, trust_level, constraints, version, policy_version, created_at_ms, updated_at_ms)
    SELECT gate_id, ${owner.accountId}, 'live', 'Test', 'L1', '{}', 1, 1, 0, 0 FROM unnest(${gateIds}::text[]) AS new (gate_id)`;
  await append(
    api,
    gateIds.map((gateId) => newRecord(api, { passport: null, gateId, gateOwner: owner })),
  );
  const [byLanguage] = await sql<
    { gate_id: string }[]
  >`SELECT gate_id FROM gates ORDER BY gate_id DESC LIMIT 1`;
  expect(byLanguage?.gate_id, 'the database does not sort by bytes').toBe(gateIds[0]);

  const text = await exportText(api);
  expect(linesOf(text).flatMap(({ chain }) => chain?.chain_id ?? [])).toEqual(gateIds);
  expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', records: gateIds.length });
});
