import { describe, expect, it } from 'vitest';
import { clockOffsetHeader } from '../../shared/wire/sync/clock-offset.ts';
import { until } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const sidecars = async () => (await api.call({ url: '/v1/sidecars' })).body.items;
const revoke = async () => {
  const passport = { agent_id: `agent-${Math.random()}`, permissions: ['a:b'] };
  const { passport_id } = (await api.call({ method: 'POST', url: '/v1/passports', body: passport })).body;
  const url = `/v1/passports/${passport_id}/revoke?wait_ms=5000`;
  return (await api.call({ method: 'POST', url, body: {} })).body.propagation;
};

describe('a sidecar that stops', () => {
  it('in order is stopped and not missing, until it runs again', async () => {
    const first = await startTestSidecar({ api });
    await first.caughtUp();
    expect(await sidecars()).toMatchObject([{ is_connected: true, stopped_at: null }]);
    await first.close();
    const [stopped] = await sidecars();
    expect(stopped).toMatchObject({ is_connected: false, stopped_at: expect.stringMatching(/^20/) });
    expect(await revoke()).toMatchObject({ sidecars: 0, silent: [] });
    expect((await api.call({ url: '/readyz' })).body.sidecars.connected).toBe(0);

    const again = await startTestSidecar({ api, folder: first.folder });
    await again.caughtUp();
    expect(await sidecars()).toMatchObject([
      { sidecar_id: stopped.sidecar_id, is_connected: true, stopped_at: null },
    ]);

    // Another id beside it, as of a container without its folder.
    const other = await startTestSidecar({ api });
    await other.caughtUp();
    await again.close();
    const [connected, gone] = (await sidecars()).sort((a: { is_connected: boolean }) =>
      a.is_connected ? -1 : 1,
    );
    expect(connected).toMatchObject({ is_connected: true, stopped_at: null });
    expect(gone).toMatchObject({ sidecar_id: stopped.sidecar_id, is_connected: false });
    expect(await revoke()).toMatchObject({ sidecars: 1, acknowledged: 1, silent: [] });
    await other.close();
    again.removeFolder();
    other.removeFolder();
  });

  it('while the control plane is out of reach is missing, and does not wait for it', async () => {
    const cutOff = await startTestSidecar({ api });
    await cutOff.caughtUp();
    const id = (await sidecars()).find((each: { is_connected: boolean }) => each.is_connected).sidecar_id;
    cutOff.link.cut();
    await cutOff.close();
    const missing = (await sidecars()).find((each: { sidecar_id: string }) => each.sidecar_id === id);
    expect(missing.stopped_at).toBeNull();
    cutOff.removeFolder();
  });
});

describe('goodbye', () => {
  const key = () => api.adminKey;
  const connect = async () => {
    const sidecar_id = api.deps.random.newId('side', api.deps.clock.now());
    const body = { sync_version: 7, sidecar_id, now_ms: api.deps.clock.now() };
    const answer = await api.call({ method: 'POST', url: '/v1/sync/connect', key: key(), body });
    expect(answer.status).toBe(200);
    return { sidecar_id, connection_id: String(answer.body.connection_id) };
  };
  const goodbye = (body: object, by = key()) =>
    api.call({ method: 'POST', url: '/v1/sync/goodbye', key: by, body });
  const stoppedAt = async (id: string) =>
    (await sidecars()).find((each: { sidecar_id: string }) => each.sidecar_id === id).stopped_at;
  const pull = (mine: object, headers = {}) => {
    const position = { account_after: 0, account_mark: '', global_after: 0, global_mark: '', wait_ms: 0 };
    const query = new URLSearchParams(
      Object.entries({ ...mine, ...position }).map(([name, value]): [string, string] => [
        name,
        String(value),
      ]),
    );
    return api.call({ url: `/v1/sync/changes?${query}`, key: key(), headers });
  };

  it('counts for the newest connection alone, and by its own account', async () => {
    const first = await connect();
    const second = { ...first, connection_id: '1.guessed' };
    const other = await api.createAccount();
    expect((await goodbye(second)).status).toBe(200);
    expect((await goodbye(first, other.key)).status).toBe(200);
    expect(await stoppedAt(first.sidecar_id)).toBeNull();
    expect((await goodbye(first)).status).toBe(200);
    expect(await stoppedAt(first.sidecar_id)).not.toBeNull();
  });

  it('is ignored if the sidecar goes on', async () => {
    const mine = await connect();
    await goodbye(mine);
    expect((await pull(mine)).status).toBe(200);
    expect(await stoppedAt(mine.sidecar_id)).toBeNull();
  });

  it('is not needed after a wrong clock report: each pull reports it again', async () => {
    const mine = await connect();
    const worst = async () => (await api.call({ url: '/readyz' })).body.sidecars.clock_offset_ms_max;
    for (const [told, shown] of [
      ['2098', 2_098],
      ['0', 0],
      ['-5000', 5_000],
      ['nonsense', 5_000],
      ['0', 0],
    ] as const) {
      await pull(mine, { [clockOffsetHeader]: told });
      await until(async () => (await worst()) === shown, { what: `${told} is shown` });
    }
  });
});
