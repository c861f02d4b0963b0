import { beforeAll, describe, expect, it } from 'vitest';
import type { ReplayReport } from '../../shared/replay/replay.ts';
import { replayText } from '../support/data/replay.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText } from '../support/service/exports.ts';
import {
  type CutOffRecords,
  recordFrozenWithApproval,
  recordUnheardMoves,
  recordWhileCutOff,
  type UnheardMoves,
} from '../support/service/sidecar-records.ts';
import { useApi } from '../support/service/use-api.ts';

// biome-ignore lint/suspicious/noExplicitAny: lines of several kinds
type Line = any;

const api = useApi(startOwnApi);
let records: CutOffRecords;
let text: string;
beforeAll(async () => {
  goToNoon(api);
  records = await recordWhileCutOff(api);
  text = await exportText(api);
});

/** The report of an export with these records in other words. */
const changedIn = (whole: string, records: readonly Line[], about: object): ReplayReport =>
  replayText(
    whole
      .trimEnd()
      .split('\n')
      .map((line): Line => JSON.parse(line))
      .map((line) => (records.some(({ id }) => id === line.id) ? { ...line, ...about } : line))
      .map((line) => JSON.stringify(line))
      .join('\n'),
  );
const changed = (record: Line, about: object): ReplayReport => changedIn(text, [record], about);

it('a replay gives each decision of a sidecar that was not connected since its start again', () => {
  const unknown = { state_age_ms: null, source: expect.stringMatching(/^side_/) };
  expect(records).toMatchObject({
    permit: { decision: 'PERMIT', ...unknown },
    stale: { decision: 'BLOCK', reason: 'state_stale', ...unknown },
    permitOfRevoked: { decision: 'PERMIT', ...unknown },
  });
  expect(replayText(text)).toMatchObject({
    decisions: {
      PERMIT: { agrees: 2, contradicted: 0, unjudged: 0 },
      BLOCK: { agrees: 1, contradicted: 0, unjudged: 0 },
    },
    contradictions: [],
  });
});

it('and contradicts a PERMIT that it cannot have given', () => {
  const { permitOfRevoked, stale } = records;
  // Its gate takes no state of unknown age, and a known age is held against the revocation.
  const atStrict = { decision: 'PERMIT', reason: null };
  expect(changed(stale, atStrict).contradictions).toMatchObject([
    { id: stale.id, expected: { decision: 'BLOCK', reason: 'state_stale' } },
  ]);
  const expected = { decision: 'BLOCK', reason: 'passport_revoked' };
  for (const about of [{ state_age_ms: 0 }, { source: 'control-plane' }])
    expect(changed(permitOfRevoked, about).contradictions).toMatchObject([
      { id: permitOfRevoked.id, expected },
    ]);
});

it('believes a gate that is stale though its state is young, at any level, and nothing else of it', () => {
  const { permit, stale } = records;
  const young = changed(stale, { state_age_ms: 20 });
  expect([young.contradictions, young.unjudged]).toEqual([[], { state: 1 }]);
  const [passport, level, ...rest] = permit.constraints_evaluated;
  const block = { decision: 'BLOCK', reason: 'state_stale', state_age_ms: 20 };
  const lenient = changed(permit, { ...block, constraints_evaluated: [passport, level, 'freshness'] });
  expect([lenient.contradictions, lenient.unjudged]).toEqual([[], { state: 1 }]);
  for (const checks of [
    [passport, level],
    [passport, level, 'freshness', ...rest],
  ])
    expect(changed(permit, { ...block, constraints_evaluated: checks }).contradictions).toMatchObject([
      { id: permit.id, fault: 'decision' },
    ]);
});

it('believes a frozen wallet before the request was read, as a sidecar is told with an approval', async () => {
  const frozen = await recordFrozenWithApproval(api);
  expect(frozen.constraints_evaluated).toEqual(['passport', 'trust_level', 'issuer', 'permission']);
  const all = replayText(await exportText(api));
  expect([all.contradictions, all.unjudged]).toEqual([[], { standing: 1 }]);
});

describe('records of passports that were moved between wallets', () => {
  const own = useApi(startOwnApi);
  let moves: UnheardMoves;
  let moved: string;
  beforeAll(async () => {
    goToNoon(own);
    moves = await recordUnheardMoves(own);
    moved = await exportText(own);
  });

  it('say the wallet and the checks by the sidecar', () => {
    const first = ['passport', 'trust_level', 'issuer', 'permission'];
    const { left, cameUnpriced, cameToApproval, wentUnpriced, frozenAtPermit, frozenAtSuspend } = moves;
    const inNone = { wallet_id: null, wallet_path: [], constraints_evaluated: first };
    expect(left).toMatchObject({ decision: 'PERMIT', ...inNone });
    expect(cameUnpriced).toMatchObject({ decision: 'PERMIT', ...inNone });
    const checks = [...first, 'approval'];
    expect(cameToApproval).toMatchObject({
      reason: 'amount_missing',
      ...inNone,
      constraints_evaluated: checks,
    });
    const spend = { constraints_evaluated: [...first, 'spend_limit'] };
    const isIn = expect.stringMatching(/^wal_/);
    expect(wentUnpriced).toMatchObject({ reason: 'amount_missing', wallet_id: isIn, ...spend });
    for (const each of [frozenAtPermit, frozenAtSuspend])
      expect(each).toMatchObject({ reason: 'wallet_frozen', ...spend });
  });

  it('are contradicted by no replay, which counts those that were told of a frozen wallet', () => {
    const { contradictions, unjudged } = replayText(moved);
    expect(contradictions).toEqual([]);
    // By the second one the sidecar may know the wallet.
    const { wallet = 0, standing = 0, ...others } = unjudged;
    expect([wallet + standing, others]).toEqual([2, {}]);
  });

  it('are contradicted where their wallet has a limit of money', () => {
    const { cameUnpriced, cameToApproval, wentUnpriced } = moves;
    const { wallet_id } = wentUnpriced;
    const told = changedIn(moved, [cameUnpriced, cameToApproval], { source: 'control-plane', wallet_id });
    expect(told.contradictions).toMatchObject([
      { id: cameUnpriced.id, expected: { decision: 'BLOCK', reason: 'amount_missing' } },
      { id: cameToApproval.id, fault: 'checks' },
    ]);
  });
});
