import { expect, it } from 'vitest';
import { findStoredRecords } from '../../control-plane/attestations/stored-records.ts';
import { changePermits } from '../../control-plane/outcomes/change-permits.ts';
import { beginPermits, lockPermits } from '../../control-plane/outcomes/outcome-store.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

/** Otherwise one of the two fails after a second, and with it a batch of records or of outcomes. */
it('a void and an outcome of the same two PERMITs lock them in one order', async () => {
  const { gate_id: gateId } = await api.createGate({ constraints: { spend_limits: { daily_usd: 100 } } });
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  const permit = async (more: object): Promise<AttestationId> => {
    const request = { permission_key: 'orders:create', amount: 10, ...more };
    return (await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: jwt, request } })).body
      .attestation_id;
  };
  const plain = await permit({});
  const held = await permit({ hold: true });
  const { sql } = api.deps;
  let outcomes: Promise<unknown> = Promise.resolve();
  await sql.begin(async (tx) => {
    await beginPermits(tx, [...(await findStoredRecords(tx, [plain])).values()], false);
    outcomes = sql.begin((other) =>
      changePermits(
        other,
        api.deps,
        [held, plain].map((attestationId) => ({
          attestationId,
          change: { kind: 'outcome', outcome: 'served', amountMicroUsd: null, detail: null },
          owner: null,
          source: 'control-plane',
        })),
        api.deps.clock.now(),
      ),
    );
    await until(async () => (await waitingForLocks(sql)) > 0, { what: 'the outcomes wait for the void' });
    await lockPermits(tx, [plain, held]);
  });
  expect(await outcomes).toMatchObject([{ kind: 'changed' }, { kind: 'changed' }]);
});
