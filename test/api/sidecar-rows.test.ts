import { beforeAll, expect, it } from 'vitest';
import { attestationsLimits } from '../../control-plane/attestations/limits.ts';
import { syncLimits } from '../../control-plane/sync/limits.ts';
import { trimSidecars } from '../../control-plane/sync/sidecar-store.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let gateId: string;
let passport: Reply['body'];
beforeAll(async () => {
  gateId = (await api.createGate()).gate_id;
  passport = await api.issuePassport();
});

const epochsOf = async (sidecarId: string): Promise<string[]> => {
  const rows = await api.deps.sql<{ epoch: string }[]>`
    SELECT epoch FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} ORDER BY place`;
  return rows.map(({ epoch }) => epoch);
};
const epochNumber = (number: number) => number.toString(16).padStart(32, '0');

it('a sidecar that starts again and again leaves a bounded number of epochs, and no record twice', async () => {
  const sidecar = await connectSidecar(api);
  const records = Array.from({ length: attestationsLimits.epochsPerSidecarMax + 3 }, () =>
    recordOf(api, { gateId, passport }),
  );
  for (const [number, record] of records.entries()) {
    expect((await sidecar.send(1, [record], { epoch: epochNumber(number) })).status).toBe(200);
  }
  const kept = await epochsOf(sidecar.sidecarId);
  expect(kept).toEqual(
    records.map((_, number) => epochNumber(number)).slice(-attestationsLimits.epochsPerSidecarMax),
  );

  // What was forgotten may come once more: its records are known by their ids.
  const again = await sidecar.send(1, records.slice(0, 1), { epoch: epochNumber(0) });
  expect(again.body).toMatchObject({ next_seq: 2 });
  const stored = await expectSoundStore(api);
  expect(stored.filter((id) => id === records[0]?.id)).toHaveLength(1);
});

it('a sidecar that has not connected for a month is deleted with its epochs, and may connect again', async () => {
  const [gone, kept] = [await connectSidecar(api), await connectSidecar(api)];
  for (const each of [gone, kept]) await each.send(1, [recordOf(api, { gateId, passport })]);
  await api.deps.sql`
    UPDATE sidecars SET last_seen_at_ms = last_seen_at_ms - ${syncLimits.sidecarForgottenMs} - 60000
    WHERE sidecar_id = ${gone.sidecarId}`;
  expect(await trimSidecars(api.deps.sql)).toBe(1);
  expect(await epochsOf(gone.sidecarId)).toEqual([]);
  expect(await epochsOf(kept.sidecarId)).toHaveLength(1);
  const back = await connectSidecar(api, { sidecarId: gone.sidecarId });
  expect((await back.send(1, [recordOf(api, { gateId, passport })])).status).toBe(200);
});
