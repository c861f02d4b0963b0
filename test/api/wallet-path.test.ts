import { expect, it } from 'vitest';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { leaseHolder, ofPassport, wish } from '../support/service/lease-holder.ts';
import { connectSidecar, predatePassport, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet, putWallet } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
const minuteMs = 60_000;

it('the wallets that a record names are those of its passport within 2 minutes, and the first of them pays', async () => {
  goToNoon(api);
  const root = (await makeWallet(api, {})).wallet_id;
  const leaf = (await makeWallet(api, { parent_wallet_id: root })).wallet_id;
  const other = (await makeWallet(api, {})).wallet_id;
  const { gate_id: gateId } = await api.createGate();
  const passport = await api.issuePassport({ wallet_id: leaf });
  await predatePassport(api, passport.passport_id, 10 * minuteMs);
  const sidecar = await connectSidecar(api);
  let seq = 1;
  /** The wallet that the record is of, or why it is refused. */
  const named = async (path: readonly string[] | null, agoMs = 0): Promise<string | null> => {
    const record = recordOf(
      api,
      { gateId, passport },
      {
        timestamp_ms: api.deps.clock.now() - agoMs,
        ...{ policy_hash: null, trust_level: null, state_age_ms: 0, extras: null },
        wallet_path: path?.map((id) => idDigest(id)) ?? null,
      },
    );
    const { status, body } = await sidecar.send(seq, [record], { form: 2 });
    if (status !== 200) return body.error.refused[0].message;
    seq++;
    return (await api.call({ url: `/v1/attestations/${record.id}` })).body.wallet_id;
  };
  const never = 'wallet_path is not one that passport_id had';
  const makeMovesOlder = async (durationMs: number) => {
    await api.deps.sql`UPDATE former_places SET ended_at_ms = ended_at_ms - ${durationMs}`;
    await api.deps.sql`UPDATE passport_wallets SET changed_at_ms = changed_at_ms - ${durationMs}`;
    await api.deps.sql`UPDATE wallets SET changed_at_ms = changed_at_ms - ${durationMs}`;
  };

  expect([await named([leaf, root]), await named(null)]).toEqual([leaf, null]);
  for (const path of [[], [leaf], [root], [other], [leaf, root, other], ['wal_of_nobody']])
    expect(await named(path)).toBe(never);

  await moveToWallet(api, passport.passport_id, other);
  expect([await named([leaf, root]), await named([other]), await named(null)]).toEqual([leaf, other, null]);
  for (const path of [[], [leaf], [other, root]]) expect(await named(path)).toBe(never);
  await makeMovesOlder(3 * minuteMs);
  expect([await named([leaf, root]), await named([other])]).toEqual([never, other]);
  // The sidecar ships later what it decided then.
  expect([await named([leaf, root], 2 * minuteMs), await named(null, 4 * minuteMs)]).toEqual([leaf, null]);
  expect(await named([other], 6 * minuteMs)).toBe(never);

  await moveToWallet(api, passport.passport_id, leaf);
  await makeMovesOlder(3 * minuteMs);
  await putWallet(api, leaf, { parent_wallet_id: other });
  expect([await named([leaf, root]), await named([leaf, other])]).toEqual([leaf, leaf]);
  for (const path of [[leaf], [other], []]) expect(await named(path)).toBe(never);
  await makeMovesOlder(3 * minuteMs);
  expect([await named([leaf, root]), await named([leaf, other])]).toEqual([never, leaf]);
});

it('units of a wallet are taken by a record that names the wallet, and by no other', async () => {
  goToNoon(api);
  const { wallet_id: id } = await makeWallet(api, { limits: { daily_usd: 100 } });
  const { gate_id: gateId } = await api.createGate();
  const passport = await api.issuePassport({ wallet_id: id });
  const holder = await leaseHolder(api);
  const lane = { ...ofPassport('wallet_spend', passport), wallet: `${idDigest(id)}:pot` };
  const [grant] = await holder.lease([wish(lane, 'day', 9_000_000)]);
  const sent = (seq: number, wallet_path: readonly string[] | null) => {
    const of = { policy_hash: null, trust_level: null, state_age_ms: 0, extras: null, wallet_path };
    const about = { amount_micro_usd: 3_000_000, took: [grant?.lease_id ?? 0], ...of };
    return holder.sidecar.send(seq, [recordOf(api, { gateId, passport }, about)], { form: 2 });
  };
  // Its money would be in no statement.
  expect((await sent(1, null)).body.error.refused[0].message).toBe(
    'took names a lease that is not of this gate and passport',
  );
  expect((await sent(1, [idDigest(id)])).status).toBe(200);
});
